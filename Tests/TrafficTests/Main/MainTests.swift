@testable import Traffic
@testable import Forward
@testable import Features
import ConfigurationSupport
import Observability
import Testing

@testable import Configuration

private let serving = "http { server { listen 80; return 204; } }"

@Suite struct MainTests {
  @Test func `the main context has nginx's defaults`() throws {
    let main = try #require(LoadedText(serving).settings?.main)
    #expect(main.workers == .fixed(1) && main.workerConnections == 512 && main.pidFile == nil && main.user == nil)
    #expect(main.coreSize == 0)
    #expect(main.errorLogs == [ErrorLogSettings(destination: .stderr, level: .error)])
  }

  @Test func `the main context says what its lines say`() throws {
    let loaded = LoadedText(
      """
      user a b; worker_processes auto; pid run/x.pid; worker_rlimit_nofile 99; worker_rlimit_core 2m; worker_shutdown_timeout 10s;
      worker_cpu_affinity 01 10; error_log logs/e.log warn; error_log journal; daemon off;
      events { worker_connections 7; use epoll; }
      """ + serving)
    let main = try #require(loaded.settings?.main)
    #expect(main.user == "a" && main.group == "b" && main.workers == .auto && main.pidFile == "/etc/run/x.pid")
    #expect(main.openFiles == 99 && main.coreSize == 2 << 20 && main.shutdownTimeout == 10_000)
    #expect(
      main.errorLogs == [
        ErrorLogSettings(destination: .file(path: "/etc/logs/e.log"), level: .warn),
        ErrorLogSettings(destination: .journal, level: .error),
      ])
    #expect(main.workerConnections == 7)
    #expect(
      loaded.problems == [
        "2:1 notice: \"worker_cpu_affinity\" is taken and has no effect: a worker has no thread of its own; bind the process: CPUAffinity= of systemd, or taskset",
        "2:74 notice: \"daemon\" is taken and has no effect: sallyport stays in the foreground; the service manager does the rest",
        "3:32 notice: \"use\" is taken and has no effect: the event loop always uses epoll",
      ])
    #expect(loaded.settings?.folder == "/etc")
  }

  @Test(arguments: [
    (
      "worker_processes 0;",
      "1:18 invalid value \"0\" in \"worker_processes\" directive | it must be \"auto\" or a number from 1 to 1024"
    ),
    (
      "error_log stderr loud;",
      "1:18 invalid log level \"loud\" | it must be one of debug, info, notice, warn, error, crit, alert, emerg"
    ),
    (
      "error_log off;",
      "1:11 warning: \"error_log off\" names a file called \"off\" | error_log stderr emerg; logs the least"
    ),
    (
      "env A=b;",
      "1:5 invalid value \"A=b\" in \"env\" directive | it must be a name alone: the service manager sets values, and all variables are kept"
    ),
    (
      "load_module modules/x.so;",
      "1:1 warning: \"modules/x.so\" is not loaded, and sallyport doesn't know what it does | leave the line out if no client is kept out by the module alone: its directives are refused by name"
    ),
    (
      "load_module modules/ngx_stream_module.so;",
      "1:1 notice: \"load_module\" is taken and has no effect: what stands in sallyport is always there, and directives of other modules are refused by name"
    ),
    (
      "load_module /usr/lib/nginx/modules/ngx_http_perl_module.so;",
      "1:1 notice: \"/usr/lib/nginx/modules/ngx_http_perl_module.so\" is not loaded, and lines with `perl`, `perl_modules`, `perl_set` are refused | sallyport runs no scripts"
    ),
    (
      "load_module \"modules/ngx_http_geoip2_module.so\";",
      "1:1 notice: \"modules/ngx_http_geoip2_module.so\" is not loaded, and lines with `geoip2`, `geoip2_*` are refused | geo with the networks, or decide in the upstream"
    ),
    (
      "working_directory /tmp;",
      "1:1 notice: \"working_directory\" is taken and has no effect: relative names are relative to the main file's folder, and the service manager says where core files go"
    ),
  ])
  func `what the main context can't take is told at its place`(line: String, problem: String) {
    #expect(LoadedText(line + serving).problems == [problem])
  }

  @Test func `nothing to serve is an error`() {
    #expect(
      LoadedText("").problems == [
        "no \"http\" block: sallyport has nothing to serve | http { server { … } }, or stream { server { … } } for TCP"
      ])
    #expect(
      LoadedText("http { }").problems == [
        "1:1 \"http\" has no \"server\" block: sallyport has nothing to serve | server { listen 443 ssl; … }"
      ])
  }

  @Test func `a missing file is an error without a place`() {
    let loaded = Configuration.load(path: "/nonexistent/x.conf")
    #expect(loaded.settings == nil)
    #expect(loaded.diagnostics.map(short) == ["cannot read \"/nonexistent/x.conf\": no such file or directory"])
  }

  /// What else is at fault may follow from a word that could not be read.
  @Test func `problems come in the order of their places, each once, those of the language first`() {
    let loaded = LoadedText(
      "http { add_header \"a b\" c; server { listen 80; return 204; location /a { return 204; } }\nlisten 1;\ninclude b; }\npid;",
      files: ["/etc/b": "ssi on;"])
    #expect(
      loaded.diagnostics.compactMap(\.location?.description) == [
        "/etc/x.conf:2:1", "/etc/x.conf:4:1", "/etc/b:1:1", "/etc/x.conf:1:19",
      ])
  }

  @Test func `warnings do not stand in the way of settings`() {
    let loaded = LoadedText("http { server { listen 80; } }")
    #expect(loaded.settings != nil && loaded.problems.count == 1)
  }
}

package import Language
import Observability

/// The main context and `events` (nginx: core and event modules).
package enum Main: DirectiveFeature {
  package static let chapter = Chapter.main

  package static let http = DirectiveEntry.local(
    "http", .main, .block(0...0, ""), "The HTTP servers.",
    example: "http { server { listen 80; return 301 https://$host$request_uri; } }", trust: .told)
  private static let events = DirectiveEntry.local(
    "events", .main, .block(0...0, ""), "Settings of the event loop.", example: "events { worker_connections 4096; }",
    trust: .none)
  private static let include = DirectiveEntry.local(
    "include", [.main, .events, .http, .server, .location, .upstream, .stream, .streamServer, .streamUpstream],
    .words(1...1, "FILE | PATTERN"),
    "Includes another file; relative names are relative to the main file's folder.", repeatable: true,
    example: "include conf.d/*.conf;")

  package static let directives = rows.entries
  private static let rows = Row<MainSettings>.local([
    Row(include),
    .line(
      "user", .main, .words(1...2, "USER [GROUP]"), initial: "nobody",
      "The user that root switches to after it has opened sockets, logs and keys; `user root;` keeps root.",
      example: "user www-data;"
    ) { main, line, _ in
      main.user = line.text(0)
      main.group = line.arguments.count > 1 ? line.text(1) : nil
    },
    .choice(
      "sandbox", .main, SandboxSettings.allCases, \.sandbox,
      "What the process may do: `landlock` restricts the files that it opens, `seccomp` its system calls, `on` both.",
      example: "sandbox on;"),
    .line(
      "worker_processes", .main, .words(1...1, "NUMBER | auto"), initial: "1",
      "The number of event loops; `auto` is one for each usable core.", example: "worker_processes auto;", trust: .none
    ) { $0.workers = workerCount($1, &$2) },
    .number(
      "worker_rlimit_nofile", .main, 1...1_048_576, \.openFiles,
      "The limit of open files; without it, sallyport raises the soft limit as needed.",
      example: "worker_rlimit_nofile 65536;", trust: .none),
    .size(
      "worker_rlimit_core", .main, \.coreSize,
      "The maximum size of a core file, which would contain keys and passwords.",
      example: "worker_rlimit_core 500m;"),
    .milliseconds(
      "worker_shutdown_timeout", .main, \.shutdownTimeout, initial: "",
      "How long a drain, or after a reload the connections of the replaced configuration, may last before they are closed. Without it, there is no limit.",
      example: "worker_shutdown_timeout 30s;", trust: .none),
    .line(
      "pid", .main, .words(1...1, "FILE | off"), "The file that holds the process id while the daemon runs.",
      example: "pid /run/sallyport.pid;", trust: .none
    ) { main, line, builder in
      guard line.text(0) != "off" else { return }
      main.pidFile = resolve(line.text(0), in: builder.folder)
      main.pidFileLocation = line.place(0)
    },
    Row(events),
    .number(
      "worker_connections", .events, 1...1_048_576, \.workerConnections,
      "The maximum number of connections of a worker, of all kinds.", example: "worker_connections 4096;", trust: .none),
    Row(http),
    .inert("env", .main, .environmentName, because: "all variables of the environment are kept"),
    .inert("daemon", .main, because: "sallyport stays in the foreground; the service manager does the rest"),
    .inert("master_process", .main, because: "workers are threads of one process"),
    .inert("lock_file", .main, because: "workers need no lock to accept"),
    .inert("timer_resolution", .main, because: "time is read once for each batch of events"),
    .inert("pcre_jit", .main, because: "regular expressions are compiled to machine code where PCRE2 can"),
    .inert(
      "worker_cpu_affinity", .main,
      because: "a worker has no thread of its own; bind the process: CPUAffinity= of systemd, or taskset"),
    .inert(
      "ssl_object_cache_inheritable", .main, .flag,
      because: "a reload reads all certificates, keys and lists again, and keeps what is equal"),
    .inert("worker_priority", .main, because: "the service manager sets it: Nice= of systemd"),
    .inert(
      "working_directory", .main, .words(1...1, "FOLDER"),
      because: "relative names are relative to the main file's folder, and the service manager says where core files go"
    ),
    .inert("google_perftools_profiles", .main, because: "sallyport isn't linked with that profiler"),
    .inert(
      "load_module", .main, .words(1...1, "FILE"),
      because: "what stands in sallyport is always there, and directives of other modules are refused by name",
      remark: LoadedModule.remark),
    .inert("thread_pool", .main, because: "no request waits for a disk"),
    .inert("debug_points", .main, because: "sallyport has no debug points"),
    .inert("use", .events, because: "the event loop always uses epoll"),
    .inert("multi_accept", .events, because: "a worker accepts what is waiting"),
    .inert("accept_mutex", .events, because: "each worker has a socket of its own"),
    .inert("accept_mutex_delay", .events, because: "each worker has a socket of its own"),
    .inert("debug_connection", .events, because: "no line of the log is for some clients alone"),
    .inert("worker_aio_requests", .events, because: "no request waits for a disk"),
  ])

  /// Reads the main context and `events {}`.
  package static func settings(_ scope: Scope, _ builder: inout SettingsBuilder) -> MainSettings {
    var main = MainSettings()
    rows.read(scope, into: &main, &builder)
    rows.read(Scope(events.line(in: scope)?.block ?? [], outer: nil), into: &main, &builder)
    for feature in builder.features.all { feature.begin(scope, &main, &builder) }
    return main
  }

  private static func workerCount(_ line: Directive, _ builder: inout SettingsBuilder) -> WorkerCount {
    if line.text(0) == "auto" { return .auto }
    if let count = Quantity.number(line.text(0)), (1...1024).contains(count) { return .fixed(count) }
    builder.refuse(line, 0, hint: "it must be \"auto\" or a number from 1 to 1024")
    return .fixed(1)
  }
}

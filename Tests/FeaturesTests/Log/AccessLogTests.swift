@testable import Traffic
@testable import Forward
@testable import Features
import ConfigurationSupport
import Observability
import Testing

@testable import Language

@Suite struct AccessLogTests {
  private func problems(_ line: String) -> [String] {
    LoadedText("events {}\nhttp {\n\(line)\nserver { listen 1; return 204; } }").problems
  }

  @Test func `buffer= and flush= are taken, for each log once`() {
    #expect(problems("access_log a.log combined buffer=32k flush=5s;") == [])
    #expect(problems("access_log a.log json buffer=32k; access_log b.log combined buffer=1m flush=100ms;") == [])
    #expect(problems("access_log a.log combined buffer=32k; access_log a.log json;") == [])
    #expect(problems("access_log a.log combined gzip; access_log b.log json gzip=9 buffer=8k flush=1m;") == [])
    #expect(problems("access_log a.log combined gzip flush=5s;") == [])
  }

  @Test(arguments: [
    ("access_log a.log combined flush=5s;", "\"flush=5s\" without a buffer"),
    ("access_log a.log combined buffer=0;", "invalid buffer size \"buffer=0\""),
    ("access_log a.log combined buffer=17m;", "invalid buffer size"),
    ("access_log a.log combined buffer=1x;", "invalid buffer size"),
    ("access_log a.log combined buffer=1m flush=0;", "invalid flush time"),
    ("access_log a.log combined buffer=1m flush=soon;", "invalid flush time"),
    ("access_log a.log combined buffer=1m; access_log a.log json buffer=2m;", "with another buffer=, flush= or gzip"),
    ("access_log syslog:server=unix:/dev/log combined buffer=1m;", "lines to syslog can't be buffered"),
    ("access_log a.log combined gzip=0;", "invalid compression level \"gzip=0\""),
    ("access_log a.log combined gzip=10;", "invalid compression level"),
    ("access_log a.log combined gzip; access_log a.log json gzip=2;", "with another buffer=, flush= or gzip"),
    ("access_log /l/$host.log combined gzip;", "buffered logs cannot have variables in name"),
    ("access_log syslog:server=unix:/dev/log combined gzip;", "lines to syslog can't be buffered"),
  ])
  func `a buffer that can't be is refused with the reason`(line: String, reason: String) {
    let found = problems(line)
    #expect(found.count == 1 && found.first?.contains(reason) == true, "\(found)")
  }

  @Test func `json is a format of its own, unless the file defines one of this name`() {
    #expect(problems("access_log a.log json;") == [])
    #expect(problems("log_format json escape=json '{}'; access_log a.log json;") == [])
    #expect(problems("log_format combined x; access_log a.log combined;").count == 1)
  }

  @Test func `the journal takes access logs, and no buffer`() {
    #expect(problems("access_log journal;") == [])
    #expect(problems("access_log journal json if=$arg_a;") == [])
    #expect(problems("access_log journal combined buffer=1m;").first?.contains("lines to the journal can't") == true)
  }

  @Test func `a path with variables is a folder and a name below it`() throws {
    let text =
      "events {} http { open_log_file_cache max=9 inactive=5s min_uses=2 valid=1m; server { listen 1; return 204;"
      + " access_log /logs/a-$host/$server_port.log json; access_log logs/$arg_a; } }"
    let logs = try #require(LoadedText(text).settings).http.servers[0].root.accessLogs
    let cache = OpenLogCache(max: 9, inactive: 5000, valid: 60_000, leastUses: 2)
    #expect(
      logs.map(\.destination) == [
        .folder(LogFolderSettings(folder: "/logs/", text: "/logs/a-$host/$server_port.log", cache: cache)),
        .folder(LogFolderSettings(folder: "/etc/logs/", text: "logs/$arg_a", cache: cache)),
      ])
    #expect(logs.map { $0.name?.asWritten } == ["a-$host/$server_port.log", "$arg_a"])
  }

  @Test(arguments: [
    ("access_log $host.log;", "\"$host.log\" has no folder before its first variable"),
    ("access_log /$host.log;", "\"/$host.log\" has no folder before its first variable"),
    ("access_log logs-$host.log;", "\"logs-$host.log\" has no folder before its first variable"),
    ("access_log syslog:server=$host/x;", "has no folder before its first variable"),
    ("access_log /l/$host.log combined buffer=1m;", "buffered logs cannot have variables in name"),
    ("access_log /l/$hots.log;", "unknown \"hots\" variable"),
    ("error_log /l/$host.log;", "the name of an \"error_log\" has no variables"),
    ("access_log /l/$host.log; open_log_file_cache valid=1m;", "must have the \"max\" parameter"),
    ("access_log /l/$host.log; open_log_file_cache max=0;", "invalid parameter \"max=0\""),
    ("access_log /l/$host.log; open_log_file_cache max=1 valid=soon;", "invalid parameter \"valid=soon\""),
    ("access_log /l/$host.log; open_log_file_cache max=1 size=2;", "invalid parameter \"size=2\""),
  ])
  func `a path whose folder requests could choose is refused`(line: String, reason: String) {
    let found = problems(line)
    #expect(found.count == 1 && found.first?.contains(reason) == true, "\(found)")
  }

  @Test func `every destination that the table offers for access_log is taken`() throws {
    let entry = try #require(Features.all.directives.table.entries(named: "access_log").first)
    let usage = entry.form.usage
    for offered in ["stderr", "off", "journal"] {
      #expect(usage.contains(offered))
      #expect(problems("access_log \(offered);").isEmpty)
    }
  }

  @Test func `access logs take a format, a condition and nothing unknown`() throws {
    let loaded = LoadedText(
      """
      http { log_format j escape=json '{"a":"$host"' '}'; access_log a.log j if=$arg_log; access_log stderr;
      server { listen 80; return 204; location /q { access_log off; return 204; } } }
      """)
    let root = try #require(loaded.settings?.http.servers.first?.root)
    #expect(root.accessLogs.map(\.destination) == [.fixed(.file(path: "/etc/a.log")), .fixed(.stderr)])
    #expect(root.accessLogs.map(\.escape) == [.json, .default])
    #expect(root.accessLogs.first?.condition == Template([.variable(.argument(Array("log".utf8)))]))
    #expect(root.accessLogs.first?.format.parts.count == 4)
    #expect(root.locations.first?.accessLogs.isEmpty == true)
    #expect(
      LoadedText("http { access_log a combind;\nserver { listen 80; return 204; } }").problems == [
        "1:21 unknown log format \"combind\" | did you mean \"combined\"?"
      ])
    #expect(
      LoadedText("http { access_log syslog:server=x y;\nserver { listen 80; return 204; } }").errors.count == 2)
  }
}

import ConfigurationSupport
@testable import Features
import Foundation
import Observability
import TestSupport
import Testing
@testable import Traffic

/// Scripts below `root` that a location would send as they are written.
@Suite struct `Sources of scripts` {
  private func warnings(_ lines: String) throws -> [String] {
    let loaded = LoadedText("http { server { listen 80; \(lines) } }")
    let http = try #require(loaded.settings, "\(loaded.errors)").http
    var scripts = ScriptSources()
    return scripts.warnings(http).map(\.message)
  }

  private func folder(_ files: [String]) throws -> String {
    let folder = NSTemporaryDirectory() + "scripts-\(UUID().uuidString)"
    for file in files {
      let path = "\(folder)/\(file)"
      let parent = URL(fileURLWithPath: path).deletingLastPathComponent()
      try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
      try Data().write(to: URL(fileURLWithPath: path))
    }
    return folder
  }

  @Test func `a folder with scripts and no location for them is warned of`() throws {
    let folder = try folder(["b.html", "index.php", "admin/tool.cgi"])
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(
      try warnings("root \(folder); location / { try_files $uri =404; }") == [
        "\"/index.php\" of \"\(folder)/\" is sent as it is written: no location runs it"
      ])
    #expect(try warnings("root \(folder);").count == 1)
    #expect(try warnings("location /x/ { alias \(folder)/; }").first?.hasPrefix("\"/x/index.php\" of") == true)
    #expect(
      try warnings("root \(folder); location ~ \\.php$ { return 404; } location /admin/ { }").first?.contains(
        "tool.cgi") == true)
  }

  @Test(arguments: [
    "location ~ \\.php$ { return 404; }", "location ~ \\.php$ { deny all; }", "location ~ \\.php$ { internal; }",
    "location / { proxy_pass http://127.0.0.1:9; }", "location ~ \\.php$ { proxy_pass http://127.0.0.1:9; }",
    "location / { location ~ [.]php { proxy_pass http://127.0.0.1:9; } }", "location = /index.php { return 403; }",
  ])
  func `a location that runs or refuses them is no fault`(line: String) throws {
    let folder = try folder(["index.php"])
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(try warnings("root \(folder); \(line)") == [])
  }

  @Test func `a prefix that no expression follows sends them although an expression would refuse them`() throws {
    let folder = try folder(["index.php"])
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(try warnings("root \(folder); location ^~ / { } location ~ \\.php$ { return 404; }").count == 1)
  }

  @Test func `of a folder that isn't here, what the lines name counts`() throws {
    #expect(try warnings("root /nowhere/x; index index.php; location / { }").count == 1)
    #expect(try warnings("root /nowhere/x; location / { try_files $uri /app.php?q=$uri; }").count == 1)
    #expect(try warnings("root /nowhere/x; location / { }") == [])
  }
}

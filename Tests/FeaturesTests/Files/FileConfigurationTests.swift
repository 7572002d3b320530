import Configuration
import ConfigurationSupport
@testable import Features
@testable import Forward
import Foundation
import TestSupport
import Testing
@testable import Traffic

/// `root`, `alias`, `try_files`, and `types`: what is taken, and what is refused.
@Suite struct `Small files in the configuration` {
  private func server(_ lines: String) -> LoadedText { LoadedText("http { server { listen 80; \(lines) } }") }
  private func error(_ lines: String) -> String { server(lines).errors.first ?? "" }

  private func root(_ lines: String) -> FileRoot? {
    server("location /x/ { \(lines) }").settings?.http.servers.first?.root.locations.first?[FileSettings.self]?.root
  }

  @Test(arguments: [
    (StockFiles.debian, "/etc/nginx/sites-enabled/default", StockFiles.debianSite),
    (StockFiles.image, "/etc/nginx/conf.d/default.conf", StockFiles.imageSite),
  ])
  func `what nginx comes with is taken as it is`(main: String, path: String, site: String) throws {
    let loaded = LoadedText(main, files: [path: site, "/etc/nginx/mime.types": StockFiles.types])
    #expect(loaded.errors == [])
    let server = try #require(loaded.settings?.http.servers.first)
    #expect(server.root.locations.first?[FileSettings.self] != nil)
    #expect(loaded.problems.contains { $0.contains("\"sendfile\" is taken and has no effect") })
  }

  @Test func `a module that is to be loaded stops nothing`() {
    let loaded = LoadedText(
      StockFiles.debian,
      files: [
        "/etc/nginx/sites-enabled/default": StockFiles.debianSite, "/etc/nginx/mime.types": StockFiles.types,
        "/etc/nginx/modules-enabled/50.conf": "load_module modules/ngx_http_xslt_filter_module.so;",
      ])
    #expect(loaded.errors == [] && loaded.problems.contains { $0.contains("lines with `xslt_stylesheet`") })
  }

  @Test func `the fixed part of a path is its folder`() {
    func expect(_ line: String, _ folder: String, _ rest: Int, at place: Testing.SourceLocation = #_sourceLocation) {
      let root = root(line)
      #expect(root?.folder == Array(folder.utf8) && root?.rest.parts.count == rest, "\(line)", sourceLocation: place)
    }
    expect("root /var/www;", "/var/www", 0)
    expect("root /var/www/;", "/var/www", 0)
    expect("root html;", "/etc/html", 0)
    expect("root /srv/$host;", "/srv/", 1)
    expect("root /srv/site-$host/www;", "/srv/", 3)
    expect("alias /data/;", "/data/", 0)
    #expect(root("alias /data/;")?.kind == .alias(prefix: 3))
  }

  @Test func `a folder that a request could choose is refused`() {
    #expect(error("root $arg_x;").contains("begins with a variable"))
    #expect(error("root /;").contains("would serve every file"))
    #expect(error("root /$host;").contains("would serve every file"))
    #expect(error("location ~ ^/a(.*)$ { alias $1; }").contains("begins with a variable"))
    #expect(error("root /a/$document_root;").contains("names itself"))
  }

  @Test func `a variable to which set always gives the same text is that text`() {
    func folder(_ server: String, _ location: String = "") -> String? {
      let loaded = LoadedText("http { server { listen 80; \(server) location /x/ { \(location) } } }")
      guard let root = loaded.settings?.http.servers.first?.root.locations.first?[FileSettings.self]?.root else {
        return nil
      }
      return String(decoding: root.folder, as: UTF8.self) + (root.rest.isEmpty ? "" : "…")
    }
    #expect(folder("set $r /srv/app; root $r/public;") == "/srv/app/public")
    #expect(folder("set $r /srv/app;", "root $r;") == "/srv/app")
    #expect(folder("set $r /srv; set $s $r/app;", "root $s/$host;") == "/srv/app/…")
    #expect(folder("", "set $r data; root ${r}s;") == "/etc/datas")
    #expect(folder("set $r /srv/;", "alias $r;") == "/srv/")
    #expect(folder("set $r /srv; if ($arg_a) { set $r /srv; }", "root $r;") == "/srv")
    for (server, location) in [
      // Another text, or none, is possible.
      ("set $r /srv; if ($arg_a) { set $r /data; }", "root $r;"), ("if ($arg_a) { set $r /srv; }", "root $r;"),
      ("set $r /srv; location /y { set $r /data; }", "root $r;"), ("set $r $host;", "root $r;"),
      ("location /y { set $r /srv; }", "root $r;"), ("root $r;", "set $r /srv;"),
      ("", "set $r /srv; root $r; location /x/y { }"), ("set $s $r; set $r /srv;", "root $s;"),
      ("set $r /srv; location ~ ^/(?<r>.*)$ { }", "root $r;"), ("set $r $r;", "root $r;"),
    ] {
      #expect(error("\(server) location /x/ { \(location) }").contains("begins with a variable"), "\(server)")
    }
    // Of several, the folder that they have in common is fixed.
    let map = "map $host $m { default /srv/www/a; b.test /srv/www/b; }"
    func several(_ server: String, _ location: String = "", http: String = map) -> LoadedText {
      LoadedText("http { \(http) server { listen 80; \(server) location /x/ { \(location) } } }")
    }
    for (server, rest) in [
      ("root $m;", 1), ("root $m/$arg_a;", 3), ("set $r /srv/www/a; if ($arg_a) { set $r /srv/www/b; } root $r;", 1),
    ] {
      let loaded = several(server), root = loaded.settings?.http.servers.first?.root[FileSettings.self]?.root
      #expect(root.map { String(decoding: $0.folder, as: UTF8.self) } == "/srv/www/", "\(loaded.problems)")
      #expect(root?.rest.parts.count == rest)
    }
    #expect(several("root $m;", http: "geo $m { default /srv/a; 10.0.0.0/8 /srv/b; }").errors == [])
    for http in [
      "map $host $m { default /srv; b.test /data; }", "map $host $m { b.test /srv/a; }",
      "map $host $m { default /srv/a; b.test /srv/$arg_x; }", "map $host $m { default /srv/a; ~^(.*)$ /srv/$1; }",
    ] { #expect(several("root $m;", http: http).errors.first?.contains("begins with a variable") == true, "\(http)") }
    // The folder is judged as if it were written.
    let one = several("root $m;", http: "map $host $m { default /srv/a; b.test /var/lib; }")
    #expect(one.errors.first?.contains("begins with a variable") == true)
    let library = several(
      "location / { root $m; }", "return 204;", http: "map $host $m { default /var/www; b.test /var/lib; }")
    #expect(library.problems.count == 1, "\(library.problems)")
    #expect(library.problems.first?.contains("\"root $m\" serves a folder of the system") == true)
    #expect(error("set $r /; root $r;").contains("would serve every file"))
    let warned = server("set $r /etc; location / { root $r; }").problems
    #expect(warned.count == 1 && warned[0].contains("\"root $r\" serves a folder of the system"), "\(warned)")
  }

  @Test(arguments: ["x.conf", "config/x.conf", "./config/x.conf"])
  func `a folder is found beside a configuration that is named relative to the current folder`(file: String) throws {
    let here = FileManager.default.currentDirectoryPath
    let text = "events {} http { server { listen 80; root site; location /i/ { alias icons/; } } }"
    let (settings, found) = Configuration.load(text: text, fileName: file)
    let loaded = try #require(settings, "\(found)")
    let server = try #require(loaded.http.servers.first)
    let roots = server.root.withNested.compactMap { $0[FileSettings.self]?.root }
    let folder = "\(here)/\(file.dropLast("x.conf".count))"
    #expect(Set(roots.map { String(decoding: $0.folder, as: UTF8.self) }) == [folder + "site", folder + "icons/"])
  }

  @Test func `an alias whose slashes don't fit the location's is told`() {
    #expect(error("location /i/ { alias /data/images; }").contains("paths would join its name"))
    #expect(server("location /i { alias /data/images/; }").problems.contains { $0.contains("it also matches \"/i…\"") })
    #expect(error("location @i { alias /data/; }").contains("named location"))
    #expect(error("location /i/ { alias /data/; root /x; }").contains("beside"))
  }

  @Test func `try_files without a root has nginx's`() throws {
    let loaded = server("location / { try_files $uri =404; } location /x/ { return 204; }")
    let locations = try #require(loaded.settings?.http.servers.first?.root.locations)
    #expect(locations[0][FileSettings.self]?.root.folder == Array("/etc/html".utf8))
    #expect(locations[1][FileSettings.self] == nil)
    #expect(loaded.problems.contains { $0.contains("looks for files in \"/etc/html\", the default of \"root\"") })
  }

  @Test func `try_files needs an end`() {
    #expect(error("root /r; location / { try_files $uri =302; }").contains("invalid code"))
    #expect(error("root /r; location / { try_files $uri @no; }").contains("\"@no\", which is not a location"))
    #expect(error("root /r; location / { try_files $uri index.html; }").contains("no path"))
    #expect(error("location ~ ^/a(.*)$ { alias /r/$1; try_files $uri =404; }").contains("regular expression"))
    #expect(error("root /r; location / { try_files $uri; }").contains("invalid number of arguments"))
  }

  @Test func `types are those of the innermost level, and the last of two counts`() throws {
    let loaded = LoadedText(
      "http { types { text/html html; a/b X; c/d x; } server { listen 80; root /r; location /x { types { } } } }")
    let root = try #require(loaded.settings?.http.servers.first?.root)
    #expect(loaded.problems.contains { $0.contains("duplicate extension \"x\"") })
    func type(_ location: LocationSettings, _ path: String) -> String {
      Array(path.utf8).withUnsafeBytes {
        String(decoding: location[ContentTypes.self]?.settings.type(of: $0) ?? [], as: UTF8.self)
      }
    }
    #expect(type(root, "/a.X") == "c/d")
    #expect(
      type(root, "/a.x/b") == "text/plain" && type(root, "/.x") == "text/plain" && type(root, "/a.") == "text/plain")
    #expect(type(root.locations[0], "/a.html") == "text/plain")
  }
}

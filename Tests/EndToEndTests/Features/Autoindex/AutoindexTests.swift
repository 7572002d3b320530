import TestSupport
import Testing

@Suite(.staged) struct `Folders beside nginx` {
  @Test func `lists, a file at random, and the empty image`() async throws {
    let scene = try Scene.ofTest(), www = try scene.makeFolder("www")
    for name in ["a.txt", "b c.html", "q\"uo'te&<x>", "ümlaut", ".hidden", "z\\back", "line\u{1}"] {
      try scene.write("www/\(name)", text: "some text")
    }
    for name in ["sub", "with", "one", "empty"] { _ = try scene.makeFolder("www/\(name)") }
    try scene.write("www/with/index.html", text: "the index")
    try scene.write("www/one/only.txt", text: "the only one")
    let beside = try await NginxComparison(
      scene,
      """
      include /etc/nginx/mime.types;
      server { listen PORT;
        location /html/ { alias \(www)/; autoindex on; charset utf-8; }
        location /rounded/ { alias \(www)/; autoindex on; autoindex_exact_size off; autoindex_localtime on; }
        location /xml/ { alias \(www)/sub/; autoindex on; autoindex_format xml; }
        location /json/ { alias \(www)/one/; autoindex on; autoindex_format json; }
        location /jsonp/ { alias \(www)/one/; autoindex on; autoindex_format jsonp; }
        location /off/ { alias \(www)/; }
        location /random/ { alias \(www)/one/; random_index on; }
        location /no-random/ { alias \(www)/sub/; random_index on; autoindex on; }
        location /gif { empty_gif; }
      }
      """)
    var requests: [NginxComparison.Request] = []
    for path in [
      "/html/", "/rounded/", "/xml/", "/json/", "/jsonp/", "/jsonp/?callback=a.b", "/jsonp/?callback=a%28", "/off/",
      "/html/none/", "/html/sub", "/html/sub/", "/html/with/", "/html/empty/", "/html/a.txt/", "/random/",
      "/no-random/",
      "/gif",
    ] {
      requests.append(NginxComparison.Request(path))
      requests.append(NginxComparison.Request(path, ["-I"]))
      requests.append(NginxComparison.Request(path, ["-d", "a body"]))
    }
    for time in ["Mon, 28 Sep 1970 06:00:00 GMT", "Mon, 28 Sep 1970 06:00:01 GMT"] {
      requests.append(NginxComparison.Request("/gif", ["-H", "If-Modified-Since: \(time)"]))
    }
    try await beside.expectSame(requests)
  }
}

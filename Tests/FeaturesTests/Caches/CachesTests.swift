import ConfigurationSupport
import Testing

/// nginx's caches: their lines are taken, and who counts on a cache is warned.
@Suite struct `Caches that nobody keeps` {
  private func problems(_ lines: String) -> [String] {
    LoadedText("http { server { listen 80; location / { proxy_pass http://127.0.0.1:9; \(lines) } } }").problems
  }

  @Test(arguments: ["proxy", "fastcgi", "scgi", "uwsgi"])
  func `a line that asks for a cache is a warning, which a strict check refuses`(module: String) {
    #expect(
      problems("\(module)_cache zone;") == [
        "1:72 warning: \"\(module)_cache\" finds no cache here: each request goes to the upstream | leave it out, or put a cache between sallyport and the upstream"
      ])
  }

  @Test func `all other lines about caches are taken without effect`() {
    let found = problems(
      """
      proxy_cache off; proxy_cache_bypass $http_upgrade; proxy_no_cache $http_pragma $arg_x;
      proxy_cache_path /tmp/c levels=1:2 keys_zone=zone:10m; proxy_cache_key $uri; proxy_cache_valid 200 1h;
      fastcgi_cache_use_stale error timeout; uwsgi_cache_lock on; scgi_cache_methods GET HEAD POST;
      """)
    #expect(found.count == 9 && found.allSatisfy { $0.contains("notice: ") && $0.contains("without") == false })
  }

  @Test func `slices are taken, and $slice_range is the part that the client asks for`() throws {
    #expect(problems("slice 1m;").count == 1 && problems("slice 1m;").allSatisfy { $0.contains("notice: ") })
    let server = "slice 1m; location / { return 200 <$slice_range>; }"
    #expect(try Rig.answer(of: server, "/", "Range: bytes=5-9\r\n").hasSuffix("<bytes=5-9>"))
    #expect(try Rig.answer(of: server).hasSuffix("<>"))
  }

  @Test func `who asks to empty a cache is told to leave that out`() {
    #expect(
      problems("fastcgi_cache_purge zone $uri;") == [
        "1:72 `fastcgi_cache_purge` is nginx's, but not supported here: leave out the location too, which asks to empty a cache: sallyport keeps no copies"
      ])
  }
}

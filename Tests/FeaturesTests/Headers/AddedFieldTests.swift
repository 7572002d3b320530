import Bytes
import ConfigurationSupport
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

@Suite struct `Fields and trailers that are added` {
  @Test func `add_header goes with success and redirects, or with always`() throws {
    let server =
      "add_header X-A 1; add_header X-B $arg_b always; location /bad { return 500; } location / { return 204; }"
    let good = try Rig.answer(of: server, "/?b=2")
    #expect(good.contains("\r\nX-A: 1\r\n") && good.contains("\r\nX-B: 2\r\n"))
    let bad = try Rig.answer(of: server, "/bad?b=2")
    #expect(!bad.contains("X-A") && bad.contains("\r\nX-B: 2\r\n"))
    #expect(try !Rig.answer(of: server, "/").contains("X-B"))
  }

  @Test func `Content-Length of add_header is left out, and told`() throws {
    let server = "add_header Content-Length 7; add_header X-A 1; location / { return 200 body; }"
    let answer = try Rig.answer(of: server)
    #expect(
      answer.contains("\r\nContent-Length: 4\r\n") && !answer.contains("Length: 7") && answer.contains("\r\nX-A: 1\r\n")
    )
    let problems = LoadedText("http { server { listen 80; add_header Content-Length 0; return 204; } }").problems
    #expect(
      problems == [
        "1:39 warning: \"Content-Length\" is left out: sallyport sets it itself | remove this line: a response without a body, such as 204, has no such field"
      ])
  }

  @Test func `a later add_trailer can say what an earlier one said`() throws {
    let rig = try Rig(
      """
      server { listen 80; location / { add_trailer X-A one; add_trailer X-B "$sent_trailer_x_a two";
        add_trailer X-C "$sent_trailer_x_b three"; return 200 body; } }
      """)
    let client = try rig.ask("GET / HTTP/1.1", "Host: h")
    let trailers = try #require(client.trailers)
    let values = trailers.bytes.withUnsafeBytes { bytes in trailers.fields.map { bytes[$0.value].text } }
    #expect(values == ["one", "one two", "one two three"])
  }

  @Test func `a trailer of add_trailer sees those of the lines before, and those of the upstream`() throws {
    let rig = try Rig.passing("add_trailer X-One <$sent_trailer_x_two>; add_trailer X-Two <$sent_trailer_x_one>;")
    let client = try rig.asked()
    try rig.upstream.answer(Rig.ok)
    let trailers = try #require(client.trailers)
    let shown = trailers.bytes.withUnsafeBytes { bytes in
      trailers.fields.map { "\(bytes[$0.name].text): \(bytes[$0.value].text)" }
    }
    #expect(shown == ["X-One: <>", "X-Two: <<>>"])
  }
}

import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Limits of what all clients take` {
  @Test func `are read, and have defaults`() throws {
    let plain = try #require(LoadedText.http("").settings?.http.clientLimits)
    #expect(plain.queueTimeout == 5000 && plain.handshakes.total == 1024 && plain.handshakes.perAddress == nil)
    let said = try #require(
      LoadedText.http("client_queue_timeout 200ms; ssl_handshake_limit 4 per_address=2;").settings?.http.clientLimits)
    #expect(said.queueTimeout == 200 && said.handshakes.total == 4 && said.handshakes.perAddress == 2)
    let total = try #require(LoadedText.http("ssl_handshake_limit 4;").settings?.http.clientLimits.handshakes)
    #expect(total.total == 4 && total.perAddress == .max)
  }

  @Test(arguments: [("0", 21), ("x", 21), ("4 2", 23), ("4 per_address=0", 23), ("per_address=2", 21)])
  func `are numbers from 1 on`(words: String, column: Int) {
    let errors = LoadedText.http("ssl_handshake_limit \(words);").errors
    #expect(errors.count == 1 && errors.first?.hasPrefix("2:\(column) invalid value") == true, "\(errors)")
  }
}

import ConfigurationSupport
import Testing
@testable import Traffic

@Suite struct `The listeners of a server block` {
  @Test func `are those that its lines name, also where several blocks share them`() throws {
    let text = """
      http { server { listen 127.0.0.1:80; listen 127.0.0.1:81; } server { listen 127.0.0.1:81; server_name a; }
        server { listen 127.0.0.1:82; } }
      stream { server { listen 127.0.0.1:83; return ""; } }
      """
    let http = try #require(LoadedText(text).settings).http
    let found = http.servers.indices.map { http.listeners(ofServer: $0).map(\.address.description) }
    #expect(found == [["127.0.0.1:80", "127.0.0.1:81"], ["127.0.0.1:81"], ["127.0.0.1:82"], ["127.0.0.1:83"]])
    // The same as each listener says of itself.
    for index in http.servers.indices {
      #expect(
        http.listeners(ofServer: index).map(\.address)
          == http.listeners.filter { $0.servers.contains(index) }.map(\.address))
    }
  }
}

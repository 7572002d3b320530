import Systemd
import Testing

@Suite struct `Names of stored sockets` {
  @Test func `systemd takes every name`() {
    let addresses = [
      "127.0.0.1:443", "[::1]:80", "unix:/run/x y/ä.sock#12.34", "unix:/" + String(repeating: "ö", count: 53), "%:\n",
    ]
    for address in addresses {
      let name = KeptSocket.name(of: address)
      #expect(name.utf8.count <= 255 && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") })
      #expect(KeptSocket.isName(name))
    }
    #expect(KeptSocket.name(of: "127.0.0.1:443") == "sallyport.listen.127.0.0.1%3A443")
    #expect(!KeptSocket.isName("https"))
  }

  @Test func `two addresses never have one name`() {
    let long = "unix:/" + String(repeating: "ö", count: 50)
    let addresses = ["a:1", "a%3A1", long + "a", long + "b"]
    #expect(Set(addresses.map { KeptSocket.name(of: $0) }).count == addresses.count)
  }

  @Test func `what systemd is asked to forget`() {
    #expect(Notification.text([.forget(socketsNamed: "x")]) == "FDSTOREREMOVE=1\nFDNAME=x")
  }
}

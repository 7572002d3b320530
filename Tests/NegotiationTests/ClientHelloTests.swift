import Testing

@testable import Negotiation

@Suite struct `A ClientHello that is only looked at` {
  /// Writes hellos.
  struct Hello {
    var version: UInt16 = 0x0303
    var session = [UInt8](repeating: 7, count: 32)
    var ciphers: [UInt8] = [0x13, 0x01, 0x13, 0x02]
    var compressions: [UInt8] = [0]
    /// nil: the hello ends before them.
    var extensions: [(UInt16, [UInt8])]? = []
    var type: UInt8 = 1

    init(_ extensions: [(UInt16, [UInt8])]? = []) { self.extensions = extensions }

    static func sixteen(_ bytes: [UInt8]) -> [UInt8] {
      [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)] + bytes
    }

    static func name(_ names: String..., type: UInt8 = 0) -> (UInt16, [UInt8]) {
      (0, sixteen(names.flatMap { [type] + sixteen(Array($0.utf8)) }))
    }

    static func protocols(_ names: String...) -> (UInt16, [UInt8]) {
      (16, sixteen(names.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }))
    }

    static func versions(_ versions: UInt16...) -> (UInt16, [UInt8]) {
      (43, [UInt8(versions.count * 2)] + versions.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] })
    }

    var message: [UInt8] {
      var body = [UInt8(version >> 8), UInt8(version & 255)] + [UInt8](repeating: 9, count: 32)
      body += [UInt8(session.count)] + session + Self.sixteen(ciphers) + [UInt8(compressions.count)] + compressions
      if let extensions {
        body += Self.sixteen(
          extensions.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 255)] + Self.sixteen($0.1) })
      }
      return [type, 0] + Self.sixteen(body)
    }

    /// The message in records of `size` bytes.
    func records(_ size: Int = 16_384) -> [UInt8] { Self.records(message, size) }

    static func records(_ message: [UInt8], _ size: Int = 16_384) -> [UInt8] {
      stride(from: 0, to: message.count, by: size).flatMap {
        [0x16, 3, 1] + sixteen(Array(message[$0..<min(message.count, $0 + size)]))
      }
    }
  }

  static func read(_ bytes: [UInt8]) -> ClientHelloReader.Outcome {
    bytes.withUnsafeBytes { ClientHelloReader.read($0) }
  }

  private static func read(_ extensions: (UInt16, [UInt8])...) -> ClientHelloReader.Outcome {
    read(Hello(extensions).records())
  }

  private static func facts(_ name: String = "", _ protocols: [String] = [], _ version: UInt16 = 0x0303)
    -> ClientHelloReader.Outcome
  {
    .hello(
      ClientHelloFacts(serverName: Array(name.utf8), protocols: protocols.map { Array($0.utf8) }, version: version))
  }

  private static let full = Hello([
    (0x2A2A, []), Hello.name("WWW.Example.COM."), (10, [0, 2, 0, 29]), Hello.protocols("h2", "http/1.1"),
    Hello.versions(0x7A7A, 0x0304, 0x0303), (0xFE0D, [1, 2, 3]),
  ])
  private static let fullFacts = facts("www.example.com", ["h2", "http/1.1"], 0x0304)

  @Test func `its name, protocols and highest version are read`() {
    #expect(Self.read(Self.full.records()) == Self.fullFacts)
    #expect(Self.read(Self.full.records() + [0x17, 3, 3, 0, 1, 0]) == Self.fullFacts)
  }

  @Test func `without extensions, it has no name, and the version of its head`() {
    #expect(Self.read(Hello(nil).records()) == Self.facts())
    #expect(Self.read(Hello([]).records()) == Self.facts())
    var old = Hello(nil)
    (old.version, old.session) = (0x0300, [])
    #expect(Self.read(old.records()) == Self.facts("", [], 0x0300))
  }

  @Test(arguments: [1, 2, 3, 4, 5, 7, 60, 100])
  func `in many records, it is put together`(size: Int) {
    #expect(Self.read(Self.full.records(size)) == Self.fullFacts)
  }

  @Test func `every beginning of it is incomplete`() {
    for bytes in [Self.full.records(), Self.full.records(3), [0x80, 46, 1, 3, 1]] {
      for count in 0..<bytes.count { #expect(Self.read(Array(bytes[..<count])) == .incomplete) }
    }
  }

  @Test(arguments: [
    "G", "SSH-2.0-x\r\n", "\u{0}", "EHLO", "\u{15}\u{3}\u{1}", "\u{17}\u{3}", "\u{16}\u{2}", "\u{16}\u{4}",
    "\u{16}\u{3}\u{1}\u{0}\u{0}", "\u{16}\u{3}\u{1}\u{40}\u{1}", "\u{16}\u{3}\u{1}\u{0}\u{9}\u{2}",
  ])
  func `what is none is known by its first bytes`(text: String) {
    let bytes = Array(text.utf8)
    #expect(Self.read(bytes) == .notTLS)
    #expect(Self.read(bytes + [UInt8](repeating: 0, count: 50)) == .notTLS)
  }

  @Test func `a record that isn't of the handshake can't stand in it`() {
    let parts = Self.full.records(50)
    var alert = parts
    alert[55] = 0x15
    #expect(Self.read(alert) == .notTLS)
    var other = parts
    other[56] = 2
    #expect(Self.read(other) == .notTLS)
    // An empty one, and one that goes on after the message.
    #expect(Self.read(parts[..<55] + [0x16, 3, 1, 0, 0] + parts[55...]) == .notTLS)
    #expect(Self.read(Hello.records(Self.full.message + [0])) == .notTLS)
    #expect(Self.read(Hello.records(Self.full.message + [1, 0, 0, 0], 100)) == .notTLS)
    #expect(Self.read(Hello.records([1, 0, 0, 0])) == .notTLS)
    #expect(Self.read(Hello.records([2] + Self.full.message.dropFirst())) == .notTLS)
  }

  /// nginx, autumn 2026: ssl_preread read beyond what malformed hellos had.
  @Test func `with any byte changed, it has its own name or none, and is read within its bounds`() {
    for bytes in [Self.full.records(), Self.full.records(40)] {
      for index in bytes.indices {
        for value: UInt8 in [0, 1, 0x7F, 0x80, 0xFE, 0xFF, bytes[index] ^ 1, bytes[index] &+ 1, bytes[index] &- 1] {
          var changed = bytes
          changed[index] = value
          // Exactly as many bytes as there are, so that a sanitizer sees a step beyond them.
          let exact = UnsafeMutableRawBufferPointer.allocate(byteCount: changed.count, alignment: 1)
          defer { exact.deallocate() }
          exact.copyBytes(from: changed)
          let outcome = ClientHelloReader.read(UnsafeRawBufferPointer(exact))
          guard case .hello(let facts) = outcome, !facts.serverName.isEmpty else { continue }
          // A changed letter is another name of the same length; a changed length never is one.
          #expect((14...16).contains(facts.serverName.count), "\(index) \(value)")
        }
      }
    }
  }

  @Test func `a hello of SSL 2 only has a version`() {
    #expect(Self.read([0x80, 46, 1, 3, 1, 0, 1]) == Self.facts("", [], 0x0301))
    #expect(Self.read([0x80, 46, 1, 0, 2]) == Self.facts("", [], 0x0002))
    for bytes: [UInt8] in [[0x80, 46, 2], [0xFF, 46, 0x16], [0x80, 46, 1, 2], [0x80, 46, 1, 1, 1]] {
      #expect(Self.read(bytes) == .notTLS)
    }
  }

  @Test func `a version of another major number doesn't count`() {
    #expect(Self.read(Hello.versions(0x0303, 0x0302)) == Self.facts("", [], 0x0303))
    #expect(Self.read(Hello.versions(0xFAFA, 0x7A7A, 0x0301)) == Self.facts("", [], 0x0301))
    // Drafts of TLS 1.3, and a version to come.
    #expect(Self.read(Hello.versions(0x7F1C)) == Self.facts("", [], 0x0304))
    #expect(Self.read(Hello.versions(0x7F12, 0x0303)) == Self.facts("", [], 0x0304))
    #expect(Self.read(Hello.versions(0x0305, 0x0304)) == Self.facts("", [], 0x0304))
    #expect(Self.read(Hello.versions(0xFAFA)) == Self.facts("", [], 0x0303))
  }

  @Test func `names of versions are nginx's`() {
    let names: [(UInt16, String)] = [
      (0x0002, "SSLv2"), (0x0300, "SSLv3"), (0x0301, "TLSv1"), (0x0302, "TLSv1.1"), (0x0303, "TLSv1.2"),
      (0x0304, "TLSv1.3"), (0x0305, ""), (0, ""), (0x0200, ""), (0xFFFF, ""),
    ]
    for (version, name) in names { #expect(ClientHelloReader.versionName(version) == name) }
  }

  @Test(arguments: ["a\u{0}b", "\u{0}", "a b", "a\n", "ä", "a/b", "\u{7F}", "", "."])
  func `a name that no host has makes it none`(name: String) {
    #expect(Self.read(Hello.name(name)) == .notTLS)
  }

  @Test func `a name has 255 bytes at most`() {
    let name = String(repeating: "x", count: 255)
    #expect(Self.read(Hello.name(name)) == Self.facts(name))
    #expect(Self.read(Hello.name(name + "x")) == .notTLS)
  }

  @Test func `two names, of one extension or of two, make it none`() {
    #expect(Self.read(Hello.name("a", "b")) == .notTLS)
    #expect(Self.read(Hello.name("a"), Hello.name("a")) == .notTLS)
    #expect(Self.read(Hello.name("a"), (10, [0, 2, 0, 29]), Hello.name("b")) == .notTLS)
    #expect(Self.read(Hello.protocols("a"), Hello.protocols("b")) == .notTLS)
    #expect(Self.read(Hello.versions(0x0304), Hello.versions(0x0303)) == .notTLS)
    #expect(Self.read((10, []), (10, [])) == Self.facts())
  }

  @Test(
    arguments: [
      (0, []), (0, [0, 0]), (0, [0, 4, 0, 0, 1, 0x61, 0]), (0, [0, 5, 0, 0, 1, 0x61]), (0, [0, 4, 1, 0, 1, 0x61]),
      (0, [0, 4, 0, 0, 2, 0x61]), (0, [0, 3, 0, 0, 0]), (0, [0, 1, 0]),
      (16, []), (16, [0, 0]), (16, [0, 1, 0]), (16, [0, 2, 2, 0x61]), (16, [0, 2, 1, 0x61, 0]),
      (16, [0, 4, 1, 0x61, 0, 0]),
      (43, []), (43, [0]), (43, [1, 3]), (43, [2, 3]), (43, [2, 3, 4, 0]), (43, [3, 3, 4, 3]),
    ] as [(UInt16, [UInt8])])
  func `a malformed extension makes it none`(type: UInt16, data: [UInt8]) {
    #expect(Self.read((type, data)) == .notTLS)
  }

  @Test func `a malformed head makes it none`() {
    var hello = Hello()
    hello.session = [UInt8](repeating: 0, count: 33)
    #expect(Self.read(hello.records()) == .notTLS)
    for ciphers: [UInt8] in [[1], [1, 2, 3]] {
      hello = Hello()
      hello.ciphers = ciphers
      #expect(Self.read(hello.records()) == .notTLS)
    }
    // Every shorter message, with a length that says so, but for the one without extensions.
    let message = Self.full.message
    let end = Hello(nil).message.count
    for count in 4..<message.count {
      let short = [1, 0, UInt8((count - 4) >> 8), UInt8((count - 4) & 255)] + message[4..<count]
      #expect(Self.read(Hello.records(short)) == (count == end ? Self.facts() : .notTLS), "\(count)")
    }
    let long = [1, 0] + Hello.sixteen(Array(message[4...]) + [0])
    #expect(Self.read(Hello.records(long)) == .notTLS)
  }
}

/// What stands in on loopback for the addresses and files of an old configuration while it runs beside ours.
///
/// The same text gets the same stand-ins again, so the old configuration and the one that ours is made of differ in the
/// ports on which they listen alone.
package struct StandIns: Sendable {
  /// Where stand-ins are.
  package struct Place: Sendable {
    /// The folder of files, an absolute path.
    package let folder: String
    /// Ports of 127.0.0.1 in the order in which addresses appear.
    package let listeners: [Int]
    package let targets: [Int]

    package init(folder: String, listeners: [Int], targets: [Int]) {
      self.folder = folder
      self.listeners = listeners
      self.targets = targets
    }
  }

  /// What a server behind the old program shows in its handshakes.
  package struct Handshake: Sendable, Hashable {
    /// The names in its certificate.
    package var names: [String]
    /// The file of CAs that the old program verifies it by; nil: it verifies nothing.
    package var authorities: Int?
    /// Whether the file has the certificate of the server itself.
    package var isListed = false
    /// Whether clients make the handshake with it, and the old program only passes it on.
    package var isPassedOn = false
  }

  /// A server behind the old program.
  package struct Target: Sendable, Hashable {
    package let address: String
    package let isHTTP: Bool
    package var handshake: Handshake?
    package var takesProxyProtocol = false
    /// As `starttls` names what is said before TLS; nil: TLS begins at once, if there is a handshake.
    package var starttls: String?
  }

  package enum Kind: Sendable, Hashable {
    /// A certificate with its key.
    case certificate
    /// CAs that verify a peer.
    case authorities
    /// A list of what one of these CAs revoked.
    case revocations(authorities: Int)
    /// A text that is written as it is.
    case text(String)
  }

  package struct File: Sendable, Hashable {
    package let kind: Kind
    package let path: String
  }

  package let place: Place
  /// Addresses on which the old program listens.
  package private(set) var listeners: [String] = []
  package private(set) var targets: [Target] = []
  /// In the order of their names: the first is `file-0`.
  package private(set) var files: [File] = []

  /// Files of CAs that also have the certificate of one peer, which is known by it.
  package var listing: Set<Int> = []

  init(_ place: Place) { self.place = place }

  /// The port that stands in for an address; nil: there are no more.
  mutating func listener(_ address: String) -> Int? {
    let index = listeners.firstIndex(of: address) ?? listeners.count
    guard index < place.listeners.count else { return nil }
    if index == listeners.count { listeners.append(address) }
    return place.listeners[index]
  }

  mutating func target(_ target: Target) -> Int? {
    let index = targets.firstIndex(of: target) ?? targets.count
    guard index < place.targets.count else { return nil }
    if index == targets.count { targets.append(target) }
    return place.targets[index]
  }

  mutating func file(_ kind: Kind, _ path: String) -> (index: Int, path: String) {
    let file = File(kind: kind, path: path)
    let index = files.firstIndex(of: file) ?? files.count
    if index == files.count { files.append(file) }
    return (index, self.path(index))
  }

  package func path(_ index: Int) -> String { "\(place.folder)/file-\(index)" }
}

/// An old configuration with stand-ins: it runs on loopback.
package struct Trial: Sendable {
  package private(set) var text = ""
  /// The old line of each line; nil: it has none.
  private(set) var lines: [OldLine?] = []
  package var standIns: StandIns
  /// What isn't compared, and why.
  package private(set) var omitted: [ConversionNote] = []

  init(_ place: StandIns.Place) { standIns = StandIns(place) }

  mutating func add(_ text: String, _ line: OldLine?) {
    // A line of the old file has no line break inside: its readers made blanks of them.
    self.text += text + "\n"
    lines.append(line)
  }

  mutating func omit(_ line: OldLine, _ reason: String) {
    omitted.append(ConversionNote(.refused, line, reason))
  }

  /// What conversions of the text call its file.
  package static let file = "trial"

  /// The same note, of the line of the old file.
  func original(_ note: ConversionNote) -> ConversionNote {
    guard note.line.file == Self.file, lines.indices.contains(note.line.number - 1),
      let line = lines[note.line.number - 1]
    else { return note }
    return ConversionNote(note.outcome, line, note.reason)
  }
}

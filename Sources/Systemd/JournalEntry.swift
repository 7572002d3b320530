import Observability

/// The events of the process that have a MESSAGE_ID in the journal: `journalctl MESSAGE_ID=…` finds each of them.
///
/// The identifiers never change. docs/operating/observe.md lists them. The line of such an event begins with words of sallyport's
/// own; lines about connections begin with `*NUMBER `, so no peer can write one of these.
package enum JournalEvent: CaseIterable, Sendable {
  /// The process serves.
  case started
  /// A reload of the configuration begins.
  case reloading
  /// A new generation serves.
  case reloaded
  /// A reload was refused; the old generation serves on.
  case reloadRefused
  /// Changed files were refused; the old ones stay in use.
  case filesRefused
  /// A file has changed and can't be loaded; its former content stays in use.
  case fileNotInEffect
  /// Files have changed and are loaded.
  case filesChanged
  /// The process drains.
  case draining
  /// The process ends.
  case ended
  /// A new binary starts.
  case replacing
  /// A new binary serves; this process drains.
  case replaced
  /// A new binary did not start; this process serves on.
  case replacementFailed

  /// How the line begins; nothing follows a beginning that is the whole line.
  private var beginning: String {
    switch self {
    case .started: "sallyport/"
    case .reloading: "reconfiguring"
    case .reloaded: "reconfigured: "
    case .reloadRefused: "the new configuration is refused"
    case .filesRefused: "the changed files were not loaded"
    case .fileNotInEffect: "NOT in effect, "
    case .filesChanged: "changed: "
    case .draining: "gracefully shutting down"
    case .ended: "exit"
    case .replacing: "signal USR2: "
    case .replaced: "process "
    case .replacementFailed: "the new binary did not start"
    }
  }

  package var messageID: String {
    switch self {
    case .started: "10174d92ec3b4f08b6e4919aa8fef7a2"
    case .reloading: "4f9e397ad54648aeb84eea466dcc6ab4"
    case .reloaded: "c4b4a6ceb9c745cdbe17ada040ebe0ea"
    case .reloadRefused: "88d4616c24874ceb84f918ff1b23dc1e"
    case .filesRefused: "72eac8534c9c4ade90b95a0767c86e2f"
    case .fileNotInEffect: "ab71531ab84f45838b35caa4f9adbe59"
    case .filesChanged: "2c3b30925a194112b1d4fade49b9d2ea"
    case .draining: "ad7a5ce0dda84d97b7e724ca98f6e5fe"
    case .ended: "43b1b859d0314487b6ab4c94cf07dc42"
    case .replacing: "3e89075fe6ed4c4da31398a2f9dbbbeb"
    case .replaced: "a521f92f99be45479a4bc5dd16f45504"
    case .replacementFailed: "e1a6753bbe89467ba324ad513a1e852f"
    }
  }

  /// nil if the line is of no such event.
  package init?(line: String) {
    let event = Self.allCases.first { event in
      switch event {
      case .ended: line == event.beginning
      case .replaced: line.hasPrefix(event.beginning) && line.hasSuffix("of the new binary serves: this one drains")
      default: line.hasPrefix(event.beginning)
      }
    }
    guard let event else { return nil }
    self = event
  }
}

/// The fields of one entry in the journal that its line tells.
package enum JournalEntry {
  /// `message`: the line of the error log, without time and level.
  package static func fields(of message: String) -> [(name: String, value: String)] {
    var fields: [(name: String, value: String)] = []
    func append(_ field: JournalField, _ value: Substring) { fields.append((field.rawValue, String(value))) }
    guard message.hasPrefix("*") else {
      if let event = JournalEvent(line: message) { append(.kind, event.messageID[...]) }
      return fields
    }
    let number = message.dropFirst().prefix { $0.isASCII && $0.isNumber }
    if !number.isEmpty { append(.connection, number) }
    // Of a line that was cut off, our own words may be missing, and the only client that it names a peer's text.
    guard message.utf8.count < ErrorLogLine.longestMessage else { return fields }
    if let client = value(of: "client", in: message) { append(.client, client) }
    if let server = value(of: "server", in: message) { append(.server, server) }
    return fields
  }

  /// Returns what follows `, NAME: ` up to the next comma. A peer's text in the line could look the same; with two of them
  /// there is no field, so a peer can't forge one.
  private static func value(of name: String, in message: String) -> Substring? {
    let mark = Array(", \(name): ".utf8), bytes = Array(message.utf8)
    guard bytes.count > mark.count else { return nil }
    var found: [Int] = []
    for start in 0...(bytes.count - mark.count) where bytes[start] == mark[0] {
      if bytes[start..<start + mark.count].elementsEqual(mark) { found.append(start + mark.count) }
    }
    guard found.count == 1, let start = found.first else { return nil }
    let value = bytes[start...].prefix { $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: " ") }
    return value.isEmpty ? nil : Substring(decoding: value, as: UTF8.self)
  }
}

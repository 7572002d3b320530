package import Observability
package import TLS
package import Traffic
package import Transport

/// What a client of a trial does: it connects to a listener, shakes hands, and sends a request; of `stream`, it only
/// connects.
package struct Attempt: Sendable, Hashable {
  package var persona: Persona
  /// By its place among the listeners of the configuration.
  package var listener: Int
  /// The name of its handshake; empty: it sends none.
  package var serverName: String
  /// Of its Host field, without a port.
  package var host: String
  package var method = "GET"
  /// In origin form.
  package var target = "/"
  /// Fields of the request beside those of the persona, `Name: value`. A Host among them replaces the other one.
  package var fields: [String] = []
  /// Where it connects from.
  package var client = Self.usualAddress
  /// The address that a PROXY header says, at a listener with one; nil: it is that of the peer.
  package var proxied: SocketAddress?
  /// Whose certificate the client relays, as a front that ends TLS does; nil: it sends no such field.
  package var relayed: Persona?
  /// Whether the path is one that the configuration writes, and no other reading of it.
  package var isPlain = true
  /// The only version of TLS that it speaks; nil: all of them.
  package var version: TLSVersions?

  /// 240.0.0.9, of the addresses that no machine has (RFC 1112 §4): a rule that names it is about nobody else.
  package static let usualAddress = SocketAddress.ipv4(address: 0xF000_0009, port: 40_000)

  package init(_ persona: Persona, listener: Int, serverName: String, host: String) {
    self.persona = persona
    self.listener = listener
    self.serverName = serverName
    self.host = host
  }
}

/// What became of an attempt.
package struct Outcome: Sendable {
  /// The last thing that happened.
  package enum End: Sendable, Hashable {
    /// The handshake fails.
    case handshake(HandshakeCause)
    /// The request or the session gets to this upstream: a group, or what its variables lead to.
    case upstream(String)
    /// The location serves it by itself: a file, a page of the process. With the words for it.
    case content(String)
    /// A response without content of anybody: that of `return`, or a refusal.
    case status(UInt16)
    /// How a session of `stream` ends that no upstream gets.
    case session(SessionResult)
    /// Nobody can say: with the reason.
    case unknown(String)
  }

  package struct Upstream: Sendable {
    package let name: String
    package let content: any ContentDirectives
    /// The fields or parameters that it gets, in their order.
    package fileprivate(set) var told: [(name: String, value: String)] = []
  }

  package struct Rule: Sendable, Hashable {
    package let place: SourceLocation
    package let admits: Bool
  }

  package fileprivate(set) var end = End.unknown("the attempt has no end")
  package fileprivate(set) var server: ServerSettings?
  /// Those that the request has come to, in their order.
  package fileprivate(set) var locations: [LocationSettings] = []
  package fileprivate(set) var upstreams: [Upstream] = []
  /// nil: there is no response.
  package fileprivate(set) var status: UInt16?
  /// Who would be asked, and is taken to admit the client: in words.
  package fileprivate(set) var asks: [String] = []
  /// The rules on clients and addresses that have decided.
  package fileprivate(set) var rules: [Rule] = []
  /// The directives that refuse the client or respond to it.
  package fileprivate(set) var refusals: [String] = []
  /// A directive has sent the client a text of its own, with any status.
  package fileprivate(set) var isAnswered = false
  private var trace: [ExplainTrace.Line] = []
  /// The report of `check --explain`; none if it is forgotten.
  package var lines: [String] { trace.map { "\($0.label)  \($0.text)" } }
  /// The same without its report, which takes most of the memory.
  package var withoutTrace: Outcome {
    var outcome = self
    outcome.trace = []
    return outcome
  }

  /// Whether the client gets what it asks for: an upstream sees its request, or it gets a content, or a response that is
  /// none of an error. What is asked of others is taken as admitted.
  package var isAdmitted: Bool {
    switch end {
    // The upstream of an error page sees a request, too, that the client is told to be refused.
    case .upstream: true
    case .content: (status ?? 200) < 400
    case .status(let status): status < 400
    case .session(let result): result == .ok || result == .passed
    case .handshake, .unknown: false
    }
  }

  /// Whether the response to it is none of an error, too.
  package var isServed: Bool { isAdmitted && (status ?? 200) < 400 }

  package var isUnknown: Bool { if case .unknown = end { true } else { false } }

  /// The line that decides: the last rule, or the location, or the server block.
  package var place: SourceLocation? {
    rules.last { $0.admits == isAdmitted }?.place ?? locations.last?.location ?? server?.location
  }

  /// What happened, in words.
  package var words: String {
    switch end {
    case .handshake(let cause): "the handshake is refused (\(cause.rawValue))"
    case .upstream(let name):
      "it reaches \(name)" + (status.map { $0 == 200 ? "" : ", and the response is \($0)" } ?? "")
    case .content(let words): "it gets \(words)" + (status.map { " with status \($0)" } ?? "")
    case .status(let status): "the response is \(status)"
    case .session(let result): "the connection is \(result.rawValue)"
    case .unknown(let reason): "nobody can say: \(reason)"
    }
  }

  static func unknown(_ reason: String) -> Outcome {
    var outcome = Outcome()
    outcome.end = .unknown(reason)
    return outcome
  }

  fileprivate init() {}

  init(_ lines: [ExplainTrace.Line]) {
    self.init()
    for line in lines { take(line) }
    trace = lines
  }

  private mutating func take(_ line: ExplainTrace.Line) {
    switch line.fact {
    case .server(let settings)?: server = settings
    case .location(let settings)?:
      locations.append(settings)
      // What has responded before was asked for another reading of the path.
      isAnswered = false
    case .handshake(let cause)?: end = .handshake(cause)
    case .rule(let place, let admits)?: rules.append(Rule(place: place, admits: admits))
    case .refusal(let step)?: refusals.append(step)
    case .answer(let step)?:
      refusals.append(step)
      isAnswered = true
    case .asks?: asks.append(line.text)
    case .waits?:
      // A content that a thread makes is there, and the client gets it.
      if case .content = end { break }
      end = .unknown(line.text)
    case .upstream(let name, let content)?:
      upstreams.append(Upstream(name: name, content: content))
      end = .upstream(name)
    case .told(let name, let value)?:
      if !upstreams.isEmpty { upstreams[upstreams.count - 1].told.append((name, value)) }
    case .content?: end = .content(line.text)
    case .status(let status)?:
      self.status = status
      // A refusal inside a content, such as a file that isn't there, is that content's.
      if case .unknown = end { end = .status(status) }
    case .result(let result)?:
      if case .upstream = end, result == .ok { break }
      end = .session(result)
    case .listener?, nil: break
    }
  }
}

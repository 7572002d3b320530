import Synchronization

/// What was asked of DNS servers, and what came of it.
public struct DNSTotals: Sendable, Equatable {
  /// What a question was about, as nginx Plus names it.
  public enum Request: String, Sendable, CaseIterable { case name, srv }

  /// What came of a question, as nginx Plus names it.
  public enum Response: String, Sendable, CaseIterable {
    case noerror, formerr, servfail
    /// The name, or a record of the kind that was asked for, doesn't exist.
    case nxdomain
    case notimp, refused, timedout
    /// Another code, or an answer that can't be read.
    case unknown

    init(_ result: DNSResult) {
      self =
        switch result {
        case .success: .noerror
        case .failure(.refusal(1)): .formerr
        case .failure(.refusal(2)): .servfail
        case .failure(.notFound): .nxdomain
        case .failure(.refusal(4)): .notimp
        case .failure(.refusal(5)): .refused
        case .failure(.timedOut): .timedout
        case .failure: .unknown
        }
    }
  }

  private var requests: [Request: UInt64] = [:]
  private var responses: [Response: UInt64] = [:]

  public init() {}

  public subscript(request: Request) -> UInt64 { requests[request] ?? 0 }
  public subscript(response: Response) -> UInt64 { responses[response] ?? 0 }

  mutating func note(_ question: DNSQuestion) { requests[question.kind == .services ? .srv : .name, default: 0] &+= 1 }
  mutating func note(_ result: DNSResult) { responses[Response(result), default: 0] &+= 1 }
}

/// The counts of the resolvers that ask the same servers, in all workers. A question over the network is rare enough for a
/// lock; what the table of names answers is not counted.
public final class DNSCounts: Sendable {
  private let state = Mutex(DNSTotals())

  public init() {}

  public var totals: DNSTotals { state.withLock { $0 } }
  func note(_ question: DNSQuestion) { state.withLock { $0.note(question) } }
  func note(_ result: DNSResult) { state.withLock { $0.note(result) } }
}

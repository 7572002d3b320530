public import Bytes
import Glibc
import HTTP
import Observability
import TLS
public import Traffic
import Transport
package import Upstream

/// A content handler that tries servers of an upstream group: what its `UpstreamAttempt` tells. `ProxyHandler` forwards
/// requests, `TCPHandler` connections.
public class UpstreamHandler: ContentHandler {
  // Not retained: the worker holds its handlers, and outlives them.
  package unowned(unsafe) final let worker: Worker
  unowned(unsafe) final let spares: SpareHandlers
  // Not retained, because every event uses them: whoever is served owns the handler, and the location owns the pass. Both
  // are nil while nobody is served.
  @exclusivity(unchecked) final private var transactionRef: Unmanaged<Transaction>?
  @exclusivity(unchecked) final private(set) var passRef: Unmanaged<CompiledPass>?
  package final let attempt: UpstreamAttempt
  /// The target of a `proxy_pass` with variables.
  final var dynamic: DynamicTarget?

  package init(_ spares: SpareHandlers) {
    self.spares = spares
    let worker = spares.worker
    self.worker = worker
    attempt = UpstreamAttempt(worker)
    super.init()
    attempt.handler = Unmanaged.passUnretained(self)
  }

  package final func prepare(_ pass: CompiledPass) { passRef = Unmanaged.passUnretained(pass) }

  @inline(__always)
  final func assume(_ transaction: Transaction) { transactionRef = Unmanaged.passUnretained(transaction) }

  final var transaction: Transaction? { transactionRef?.takeUnretainedValue() }
  /// Whoever is served rests on a judgement that ends then.
  @inline(__always)
  final func note(end: Int64) { transactionRef?._withUnsafeGuaranteedRef { $0.note(end: end) } }
  package final var pass: CompiledPass? { passRef?.takeUnretainedValue() }

  /// The pass whose upstream serves an exchange or a session.
  package static func pass(of transaction: Transaction) -> CompiledPass? {
    (transaction.handler as? UpstreamHandler)?.pass
  }

  /// Clears what concerns whoever was served.
  @inline(__always)
  final func forget() {
    transactionRef = nil
    passRef = nil
    if dynamic != nil { dynamic.take()?.leave() }
    attempt.reset()
  }

  /// The group whose servers the handler tries.
  package final var group: UpstreamGroup? { pass?.group ?? dynamic?.group }

  /// Whom the next connection belongs to; nil: anybody may use it later.
  package func connectionUser(_ pass: CompiledPass) -> (any AnyObject & Sendable)? {
    pass.origin.isOfOneClient ? OwnSession() : nil
  }

  // MARK: The end of a judgement

  /// Judges the upstream of the attempt in progress.
  ///
  /// A request that a refused upstream has got can't be taken back. So the exchange goes on and the log tells it, unless
  /// `proxy_ssl_revoked_connections` cuts it.
  public final override func judgeUpstream(by fresh: LiveGeneration) -> Int64 {
    guard let transaction, let session = attempt.stream?.session, let settings = session.settings, session.isJudged
    else { return .max }
    let context = fresh.generation.upstreamContexts[settings]
    guard let refusal = session.refusal(by: context, at: Int64(time(nil))) else { return session.judgementEnd }
    worker.counters.revokedUpstreams.count(refusal.outcome)
    let isCut = settings.revokedUpstream == .close
    transaction.tellOfRepeated(
      .error,
      "the upstream is not trusted any more, \(isCut ? "so its request in progress is cut" : "and its request in progress goes on"): \(refusal)"
    )
    if isCut { cut(refusal) }
    return .max
  }

  /// Ends whatever the upstream, which is refused now, is serving.
  func cut(_ refusal: UpstreamRefusal) {}

  // MARK: What the attempt tells

  package func attemptDidBegin() {}
  package func attemptDidOpen(_ stream: UpstreamStream) {}
  func interimHead(_ response: ResponseHead) {}
  /// Returns false to stop reading.
  func responseHead(_ response: ResponseHead) -> Bool { true }
  func responseBody(_ bytes: UnsafeRawBufferPointer) {}
  /// Returns false if what the upstream says makes a response without a head a failure.
  func upstreamDidSay(_ text: UnsafeRawBufferPointer, _ wire: UpstreamWire) -> Bool { true }
  func upstreamDidExceed() {}
  func responseDidPump() {}
  func responseDidEnd(_ trailers: Trailers?) {}
  func mayAskAgain(_ stream: UpstreamStream?) {}
  func upstreamDidDrain() {}
  func tunnelFromUpstream(_ bytes: UnsafeRawBufferPointer) {}
  func tunnelUpstreamDidEnd(inGoodOrder: Bool) {}
  func upstreamAllowanceDidEnd() {}
  package func attemptDidFail(_ failure: AttemptFailure, onKept: Bool) {}

  // MARK: Variables

  public override func append(_ variable: SimpleVariable, to output: inout ByteBuffer) {
    switch variable {
    case .proxy_host: output.append(dynamic?.host ?? pass?.host ?? [])
    case .proxy_port: output.append(dynamic?.port ?? pass?.port ?? [])
    case .upstream_ssl_spki: output.append(string: attempt.keyHash)
    default:
      let isOver = transactionRef?._withUnsafeGuaranteedRef { $0.isOver } ?? true
      let named = variable == .upstream_addr ? group : nil
      borrowing(attempt) { $0.append(variable, named, isOver: isOver, to: &output) }
    }
  }

  public override func appendParticulars(to text: inout ByteBuffer) {
    if let scheme, let group, let pass { attempt.appendParticulars(pass.settings.prefix(scheme), group, to: &text) }
  }
}

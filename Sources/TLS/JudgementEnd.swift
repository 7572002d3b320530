import COpenSSL
import Crypto
import Glibc
import Transport

/// A judgement of an upstream, and until when it holds.
struct UpstreamJudgement {
  let result: TrustResult
  /// Seconds since 1970 from which on the upstream is to be judged again; `.max`: never.
  let end: Int64

  init(_ result: TrustResult, end: Int64 = .max) {
    self.result = result
    self.end = end
  }
}

// A judgement holds until something ends, or begins, that it rests on. The end is computed with the judgement and is
// later than it, so a judgement that is made again at its end never has that same end.
extension TLSStream {
  /// Whether the time has come to judge the peer again. `now`: seconds since 1970.
  public func isJudgementOver(at now: Int64) -> Bool { now >= judgementEnd }

  /// Notes until when the client's verdict holds. `answersEnd`: when the first answer of a responder expires, on which it
  /// rests.
  func noteJudgementEnd(_ ssl: OpaquePointer, answersEnd: Int64 = .max) {
    let now = Int64(time(nil))
    // Nobody has judged the client of a session that was resumed.
    let end =
      judgement?.validUntil
      ?? serverContext.map { $0.judgementEnd(of: clientVerdict, sent: Self.sent(by: ssl), at: now) } ?? .max
    judgementEnd = Self.end(end, answersEnd: answersEnd, at: now)
  }

  /// The end of a judgement that rests on answers of responders, too.
  static func end(_ end: Int64, answersEnd: Int64, at now: Int64) -> Int64 {
    // Against an answer that expires as it comes.
    min(end, max(answersEnd, now.addingReportingOverflow(1).partialValue))
  }

  /// Client side: takes the judgement of the upstream.
  func take(_ judgement: UpstreamJudgement) {
    trustResult = judgement.result
    judgementEnd = judgement.end
  }

  /// Client side: whether the upstream may get another request over this connection. Judges it again if its judgement is
  /// over. `now`: seconds since 1970.
  public func isStillTrusted(at now: Int64) -> Bool {
    // Once a request, so it copies nothing of what a new judgement takes.
    if !isJudgementOver(at: now) {
      switch trustResult {
      case .trusted?, .trustedByPin?, .unverified?: return true
      case .reportOnlyMismatch?, .refused?, nil: break
      }
    }
    return upstreamRefusal(by: nil, at: now) == nil
  }

  /// Client side: judges the upstream again, which has proved its key in the handshake, if its judgement is over or
  /// `context` has other anchors, pins or CRLs. Returns why it is refused now.
  ///
  /// `context`: that of the present generation for the same settings; nil: the connection's own.
  public func upstreamRefusal(by context: UpstreamTLSContext?, at now: Int64) -> UpstreamRefusal? {
    guard case .client(let own, let name, _) = side, let ssl, !isClosed else { return nil }
    let context = context ?? own
    // Several requests may be in progress, and each is told.
    if isJudgementOver(at: now) || context.trustDigest != own.trustDigest { take(context.judgeAgain(ssl, name: name)) }
    if case .refused(let refusal) = trustResult { return refusal }
    return nil
  }

  /// Client side: the settings by which the upstream was judged.
  public var upstreamSettings: UpstreamTLSSettings? {
    if case .client(let context, _, _) = side { context.settings } else { nil }
  }
}

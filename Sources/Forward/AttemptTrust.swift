import TLS
package import Traffic
import Transport
import Upstream

/// How a `proxy_pass` chooses the connection for its next attempt: by group, trust, user and origin.
extension UpstreamHandler {
  /// Begins an attempt where the request has a say in group, trust, user or origin.
  package func connect(_ transaction: Transaction, _ pass: CompiledPass, again: Int?) {
    guard let group else { return }
    guard let origin = pass.origin.make(for: transaction) else { return transaction.refuse(.fault) }
    let protocols = pass.protocols(transaction)
    let context = dynamic.map(\.security.context) ?? pass.context
    if let identity = pass.identity, let context {
      // The request names the certificate to present. Without that certificate, no request goes to an upstream.
      return identity.find(for: transaction, context) { [self] context in
        attempt.begin(group, trust(transaction, pass, context, origin, protocols), pass.attempt, again: again)
      }
    }
    attempt.begin(group, trust(transaction, pass, context, origin, protocols), pass.attempt, again: again)
  }

  /// The scheme of the target; nil while the handler serves nobody.
  package var scheme: UpstreamScheme? { dynamic?.security.scheme ?? pass?.settings.scheme }

  /// Computes the target of a `proxy_pass` that each request finds anew.
  func settleTarget(_ transaction: Transaction, _ pass: CompiledPass) throws(DynamicTarget.Refusal) {
    let target = try DynamicTarget(for: transaction, pass)
    if pass.settings.dialect.needsPort, let fault = target.portFault(in: transaction) {
      throw DynamicTarget.Refusal(sentence: fault, .fault)
    }
    dynamic = target
  }

  private func trust(
    _ transaction: Transaction, _ pass: CompiledPass, _ context: UpstreamTLSContext?, _ origin: ConnectionOrigin,
    _ protocols: OfferedProtocols
  ) -> UpstreamTrust {
    // A connection that tells of one client is nobody else's, not even the same user's.
    let user = connectionUser(pass)
    if user == nil, context === pass.context, let settled = pass.trust { return settled }
    return UpstreamTrust(
      context: context, name: pass.nameForTLS(transaction), connection: pass.settings.version.connection, boundTo: user,
      origin: origin, negotiation: pass.negotiation, protocols: protocols)
  }
}

extension CompiledPass {
  /// The body that the upstream gets whatever the client sent: that of `proxy_set_body`, or none with
  /// `proxy_pass_request_body off`. nil: the client's.
  func ownBody(_ exchange: Exchange) -> OwnBody? {
    if let body { return .text(body.bytes(exchange)) }
    return settings.request.passesBody ? nil : OwnBody.none
  }
}

/// A request body that sallyport makes. It takes the place of the client's, and its length is known.
package enum OwnBody {
  case none
  case text([UInt8])
}

import Bytes
import Crypto
import HTTP
import Observability
import TLS
import Upstream

/// How a try at a server of the group begins: by which trust, and as whom.
extension Exchange {
  /// Tries the next server, or with `again` the same one over a new connection.
  func retry(again: Int? = nil) {
    guard let pass, let group else { return }
    attempt(pass, group, again: again)
  }

  func attempt(_ pass: LiveProxyPass, _ group: UpstreamGroup, again: Int? = nil) {
    if let identity = pass.identity { return attempt(pass, group, presenting: identity, again) }
    if let trust = pass.trust, boundUser == nil { return attempt(pass, group, trust, again) }
    let name = pass.nameForTLS(self)
    attempt(pass, group, UpstreamTrust(context: pass.context, name: name, boundTo: boundUser), again)
  }

  private func attempt(_ pass: LiveProxyPass, _ group: UpstreamGroup, _ trust: UpstreamTrust, _ again: Int?) {
    if let failure = group.attempt(self, trust: trust, settings: pass.attempt, tried: tried, again: again) {
      upstreamDidFail(failure)
    }
  }

  /// The same with a certificate that this request names. Without it nobody is asked.
  private func attempt(
    _ pass: LiveProxyPass, _ group: UpstreamGroup, presenting identity: LiveIdentity, _ again: Int?
  ) {
    guard let connection, let base = pass.context else { return fail(Failure(500)) }
    let source: CertificateSource
    do throws(MaterialError) { source = try identity.source(self) } catch {
      return refuseIdentity(error.message)
    }
    let serial = serial
    connection.live.identities.find(base, source) { [self] outcome in
      // The client may be gone, and this object in another's service.
      guard serial == self.serial, self.connection != nil else { return }
      switch outcome {
      case .success(let context):
        attempt(pass, group, UpstreamTrust(context: context, name: pass.nameForTLS(self), boundTo: boundUser), again)
      case .failure(let refusal): refuseIdentity(refusal.reason)
      }
    }
  }

  /// Sends the head that was built. Credentials of ours are in no buffer afterwards.
  func sendRequestHead(_ pass: LiveProxyPass, _ upstream: UpstreamConnection) {
    scratch.removeAll()
    HTTP1Encoder.request(outgoing, pass.settings.speaksHTTP11 ? .http11 : .http10, to: &scratch)
    upstream.send(scratch.readable)
    guard authentication != nil else { return }
    scratch.wipe()
    let isUpgrade = outgoing.asksForUpgrade
    outgoing.wipe()
    outgoing.asksForUpgrade = isUpgrade
  }

  private func refuseIdentity(_ reason: String) {
    tellOfRepeated(.error, "no certificate to present to the upstream: \(reason)")
    fail(Failure(502))
  }
}

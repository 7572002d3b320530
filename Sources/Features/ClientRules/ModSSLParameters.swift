import Bytes
import Forward
import Observability
import TLS
import Traffic

/// The parameters of `client_identity mod_ssl`, which have the names that Apache's mod_ssl gives them. A client whose chain
/// was not verified has no name in them: a program takes SSL_CLIENT_S_DN for true without a look at SSL_CLIENT_VERIFY.
enum ModSSLParameters {
  static let all: [PassParameter] =
    [parameter("SSL_CLIENT_VERIFY", of: verified, isLeftOutIfEmpty: false)]
    + [
      ("SSL_CLIENT_S_DN", .ssl_client_s_dn), ("SSL_CLIENT_S_DN_CN", .ssl_client_s_dn_cn),
      ("SSL_CLIENT_I_DN", .ssl_client_i_dn), ("SSL_CLIENT_M_SERIAL", .ssl_client_serial),
      ("SSL_CLIENT_V_START", .ssl_client_v_start), ("SSL_CLIENT_V_END", .ssl_client_v_end),
      ("SSL_CLIENT_CERT", .ssl_client_raw_cert),
    ].map { parameter($0, of: verified($1), isLeftOutIfEmpty: true) }

  private static func parameter(
    _ name: String, of variable: FeatureVariable, isLeftOutIfEmpty: Bool
  ) -> PassParameter {
    PassParameter(
      name: Array(name.utf8), value: Template([.variable(.feature(variable))]), isLeftOutIfEmpty: isLeftOutIfEmpty)
  }

  private static let verified = FeatureVariable("ssl_client_verify_by_chain") { exchange, output in
    output.append(exchange.facts.verifiedChain == nil ? "NONE" : "SUCCESS")
  }

  private static func verified(_ property: CertificateVariable) -> FeatureVariable {
    FeatureVariable("\(property.rawValue)_by_chain") { exchange, output in
      guard let chain = exchange.facts.verifiedChain else { return }
      exchange.worker.clock.update()
      output.append(property.value(of: chain.leaf, at: exchange.worker.clock.seconds))
    }
  }
}

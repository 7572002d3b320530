import Proxy

extension SettingsBuilder {
  /// The limits of what all clients together may take.
  func clientLimits(_ http: Scope) -> ClientLimitSettings {
    var limits = ClientLimitSettings()
    limits.queueTimeout = http.milliseconds("client_queue_timeout") ?? limits.queueTimeout
    return limits
  }
}

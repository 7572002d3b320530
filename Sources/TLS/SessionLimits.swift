extension SessionCacheSettings {
  /// The number of sessions that these settings keep; nil when they keep no sessions.
  package var sessions: Int? {
    switch self {
    case .off, .none: nil
    case .builtin(let sessions): sessions
    case .shared(_, let bytes): max(1, bytes / SessionStore.bytesPerSession)
    }
  }
}

extension ServerTLSSettings {
  /// Whether a client may resume: from a cache, or by a ticket, which here names a session in the store.
  package var resumesSessions: Bool { sessionCache.sessions != nil || sessionTickets }
}

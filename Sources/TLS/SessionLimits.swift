extension SessionCacheSettings {
  /// How many sessions it asks to be kept; nil where it asks for none.
  package var sessions: Int? {
    switch self {
    case .off, .none: nil
    case .builtin(let sessions): sessions
    case .shared(_, let bytes): max(1, bytes / SessionStore.bytesPerSession)
    }
  }
}

extension ServerTLSSettings {
  /// Whether a client may resume at all: by a cache, or by a ticket, which with us names a session in the store.
  package var resumesSessions: Bool { sessionCache.sessions != nil || sessionTickets }
}

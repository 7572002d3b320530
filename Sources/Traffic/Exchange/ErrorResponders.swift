/// Responds to the errors of a location in place of the standard pages.
open class ErrorResponder {
  public init() {}

  public enum Answer {
    /// Another location responds.
    case page
    /// The client is sent elsewhere.
    case redirect
  }

  /// How the location responds to a status; nil: by the standard page.
  open func answer(to status: Int) -> Answer? { nil }
  /// Responds, for a status that has an answer.
  open func respond(to failure: ErrorResponse, _ exchange: Exchange) {}
}

/// Keeps the denials of a location's access phase from their response for a while, or responds itself.
open class DenialResponder {
  public init() {}

  /// Returns whether this will respond to the failure.
  open func takes(_ failure: ErrorResponse, of exchange: Exchange) -> Bool { false }
}

extension Exchange {
  /// How the location responds to a status; nil: by the standard page, or no other page may be shown any more.
  package func errorAnswer(to status: Int) -> ErrorResponder.Answer? {
    guard let responder = location.errorResponder, showsErrorPages else { return nil }
    return responder.answer(to: status)
  }

  /// Responds by the location's own answer to the status. Returns false if there is none.
  func respondsByPage(to failure: ErrorResponse) -> Bool {
    guard errorAnswer(to: failure.code) != nil, let responder = location.errorResponder else { return false }
    responder.respond(to: failure, self)
    return true
  }
}

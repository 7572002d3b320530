package import HTTP

/// An error that sallyport itself responds with. The code is nginx's, with its private 494 to 499. `error_page` uses
/// this code, and it decides status and text of the standard page.
public struct ErrorResponse: Error, Equatable {
  /// 400 to 599.
  package let code: Int

  package init(_ code: Int) { self.code = code }

  package init(_ error: HeadError) {
    switch error {
    case .fieldTooLarge, .headTooLarge, .tooManyFields: code = 494
    default: code = Int(error.status)
    }
  }

  static let timedOut = ErrorResponse(408)
  static let misdirected = ErrorResponse(421)
  static let headTooLarge = ErrorResponse(494)
  static let certificateError = ErrorResponse(495)
  package static let noCertificate = ErrorResponse(496)
  static let plainRequestOnTLSPort = ErrorResponse(497)

  /// The status that the client gets.
  package var status: UInt16 {
    switch code {
    case 494, 495, 496, 497: 400
    default: UInt16(truncatingIfNeeded: code)
    }
  }

  /// nginx's line below the heading, where it has one.
  package var detail: StaticString? {
    switch code {
    case 494: "Request Header Or Cookie Too Large"
    case 495: "The SSL certificate error"
    case 496: "No required SSL certificate was sent"
    case 497: "The plain HTTP request was sent to HTTPS port"
    default: nil
    }
  }

  /// Whether the connection ends after this error, as in nginx, because its state allows no further request.
  var endsConnection: Bool { blamesRequest || code == 500 || code == 501 }

  /// Whether the request itself is at fault, so that no other location gets its body.
  package var blamesRequest: Bool {
    switch code {
    case 400, 408, 413, 414, 421, 494...497, 505: true
    default: false
    }
  }
}

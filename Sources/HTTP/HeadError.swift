/// Why the parser refused a head. The proxy closes the connection, because it can't tell where the next message begins.
public enum HeadError: UInt8, Error, Sendable, Equatable, CaseIterable {
  // The first line
  case badMethod, connectMethod, traceMethod, prefaceMethod, badTarget, badRequestLine, simpleRequest, badVersion
  case unsupportedVersion
  case badStatusLine
  // Line by line
  case bareCarriageReturn, nul, controlCharacter, lineFolding, whitespaceBeforeFirstField, whitespaceBeforeColon
  case missingColon, emptyFieldName, badFieldName, bareLineFeed
  // HTTP/2 only
  case badPseudoField, repeatedPseudoField, missingPseudoField, connectionSpecificField, whitespaceAroundValue
  case badScheme, unknownProtocol
  // Bounds
  case requestLineTooLong, fieldTooLarge, headTooLarge, tooManyFields, tooManyConnectionOptions
  // The message as a whole
  case missingHost, repeatedHost, badHost, differentHost, repeatedAuthorization, repeatedField
  case badContentLength, repeatedContentLength, badTransferEncoding, unknownTransferCoding, lengthAndTransferEncoding
  case transferEncodingInOldVersion, bodyInInterimResponse
  // CGI only
  case badStatusField, repeatedStatusField, interimStatus

  /// The status of the response to the client. An error in an upstream's head always gives 502.
  public var status: UInt16 {
    switch self {
    case .connectMethod, .traceMethod: 405
    case .requestLineTooLong: 414
    case .unknownTransferCoding, .unknownProtocol: 501
    case .unsupportedVersion: 505
    default: 400
    }
  }

  /// The error as text for the log, without bytes of the message.
  public var reason: StaticString {
    switch self {
    case .badMethod: "the method has a character other than A-Z, \"_\" and \"-\""
    case .connectMethod: "CONNECT asks for a tunnel, which a reverse proxy does not give"
    case .traceMethod: "TRACE would show the client what the proxy tells upstreams"
    case .prefaceMethod: "PRI, which begins the preface of HTTP/2 and is no method"
    case .badTarget: "the request target is neither a path nor an http(s) URI, or has an invalid character"
    case .badRequestLine: "the request line is not \"method target version\" with single spaces"
    case .simpleRequest: "the request line has no version (HTTP/0.9)"
    case .badVersion: "the version is not HTTP/ digit . digit"
    case .unsupportedVersion: "the version is other than HTTP/1.x"
    case .badStatusLine: "the status line is not \"version status reason\" with a status of 100 to 999"
    case .bareCarriageReturn: "a carriage return without a line feed"
    case .nul: "a NUL byte"
    case .controlCharacter: "a control character"
    case .lineFolding: "a field line that begins with whitespace (line folding)"
    case .whitespaceBeforeFirstField: "whitespace before the first field"
    case .whitespaceBeforeColon: "whitespace between a field name and its colon"
    case .missingColon: "a field line without a colon"
    case .emptyFieldName: "a field line with an empty name"
    case .badFieldName: "a field name that is not a token"
    case .bareLineFeed: "a line feed without a carriage return in chunked framing"
    case .badPseudoField: "a pseudo-field that a request does not have, or one after a field"
    case .repeatedPseudoField: "more than one pseudo-field of a name"
    case .missingPseudoField: "no :method, :scheme or :path"
    case .connectionSpecificField: "a field that belongs to a connection of HTTP/1"
    case .whitespaceAroundValue: "whitespace at the start or the end of a field's value"
    case .badScheme: "the :scheme is not http or https"
    case .unknownProtocol: "CONNECT with a :protocol other than websocket"
    case .requestLineTooLong: "the request line is longer than allowed"
    case .fieldTooLarge: "a line of the head is longer than allowed"
    case .headTooLarge: "the head is larger than allowed"
    case .tooManyFields: "more field lines than allowed"
    case .tooManyConnectionOptions: "Connection has more than 64 elements, or nominates more than 16 unknown names"
    case .missingHost: "no Host in an HTTP/1.1 request"
    case .repeatedHost: "more than one Host"
    case .repeatedAuthorization: "more than one Authorization"
    case .repeatedField: "more than one If-…, Content-Range or Expect of a name"
    case .badHost: "the Host, or the authority of the target, is not a name or address with an optional port"
    case .differentHost: "the Host differs from the authority of the request target"
    case .badContentLength: "Content-Length is not one decimal number that fits 63 bits"
    case .repeatedContentLength: "more than one Content-Length"
    case .badTransferEncoding: "Transfer-Encoding is not \"chunked\", once"
    case .unknownTransferCoding: "a transfer coding other than chunked"
    case .lengthAndTransferEncoding: "both Content-Length and Transfer-Encoding"
    case .transferEncodingInOldVersion: "Transfer-Encoding in an HTTP/1.0 message"
    case .bodyInInterimResponse: "an interim response that announces a body"
    case .badStatusField: "the Status field does not begin with a status of 100 to 999"
    case .repeatedStatusField: "more than one Status"
    case .interimStatus: "a status below 200, which a CGI program can't send"
    }
  }
}

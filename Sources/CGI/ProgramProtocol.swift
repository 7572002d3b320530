public import Bytes
public import HTTP

/// How a server of programs is spoken to, and what each request of a location says in the same way.
public enum ProgramProtocol: Sendable, Equatable {
  /// FastCGI 1.0, always as a responder. `keepsConnection`: whether the server is asked to leave the connection open
  /// after the response.
  case fastCGI(keepsConnection: Bool)
  case scgi
  /// The modifiers tell a uwsgi server what kind of packet follows; 0 and 0 is a request for a Python program.
  case uwsgi(modifier1: UInt8, modifier2: UInt8)

  /// What the head of a response begins with. nginx takes a status line from SCGI and uwsgi servers only.
  public var responseStart: ResponseStart {
    switch self {
    case .fastCGI: .fields
    case .scgi, .uwsgi: .statusLineOrFields
    }
  }

  /// The most bytes of all parameters of one request, as they are sent.
  public var parameterBytes: Int {
    switch self {
    case .fastCGI, .scgi: 1024 * 1024
    // The size of a packet is a number of 16 bits.
    case .uwsgi: 65535
    }
  }

  /// Appends all that goes before a request's body. `parameters`: the bytes of a `ParameterBlock`. `contentLength`: of the
  /// body, for SCGI, whose servers must know it.
  public func appendHead(parameters: UnsafeRawBufferPointer, contentLength: UInt64, to output: inout ByteBuffer) {
    switch self {
    case .fastCGI(let keepsConnection):
      FastCGIRecord.appendBegin(keepsConnection: keepsConnection, to: &output)
      FastCGIRecord.append(parameters: parameters, to: &output)
      FastCGIRecord.appendEnd(of: .parameters, to: &output)
    case .scgi:
      // A netstring of names and values, each ended by NUL.
      var digits = 1, rest = contentLength / 10
      while rest > 0 {
        digits += 1
        rest /= 10
      }
      let own = "CONTENT_LENGTH\0\0SCGI\u{0}1\0".utf8.count
      output.append(decimal: UInt64(own + digits + parameters.count))
      output.append(":CONTENT_LENGTH\0")
      output.append(decimal: contentLength)
      output.append("\0SCGI\u{0}1\0")
      output.append(parameters)
      output.append(",")
    case .uwsgi(let modifier1, let modifier2):
      output.append(modifier1)
      output.append(littleEndian: UInt16(truncatingIfNeeded: parameters.count))
      output.append(modifier2)
      output.append(parameters)
    }
  }

  /// Appends a part of a request's body. No bytes append nothing.
  public func appendBody(_ bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    switch self {
    case .fastCGI: FastCGIRecord.append(.stdin, bytes, to: &output)
    case .scgi, .uwsgi: output.append(bytes)
    }
  }

  /// Appends what ends a request's body. With SCGI and uwsgi, Content-Length has said where it ends.
  public func appendBodyEnd(to output: inout ByteBuffer) {
    if case .fastCGI = self { FastCGIRecord.appendEnd(of: .stdin, to: &output) }
  }
}

import Patterns
import Transport

// Spells settings as in the configuration language, for `sallyport check`.

extension LocationMatch {
  package var asWritten: String {
    switch self {
    case .prefix(let path): String(decoding: path, as: UTF8.self)
    case .prefixNoRegex(let path): "^~ \(String(decoding: path, as: UTF8.self))"
    case .exact(let path): "= \(String(decoding: path, as: UTF8.self))"
    case .regex(let expression, _): "\(expression.isCaseless ? "~*" : "~") \(expression.pattern)"
    case .named(let name): "@\(name)"
    }
  }
}

extension Template {
  package var asWritten: String { text([:]) }

  /// `names`: those of variables by slot (`HTTPSettings.slotNames`).
  package func text(_ names: [Int: String]) -> String {
    parts.map { part in
      switch part {
      case .literal(let bytes): return String(decoding: bytes, as: UTF8.self)
      case .variable(.slot(let slot)):
        return "$\(names[slot] ?? "(variable \(slot + 1) of set)")"
      case .variable(.belowFolder(_, let slot)): return "$\(names[slot] ?? "")"
      case .variable(let variable): return "$\(variable.name)"
      }
    }.joined()
  }
}

extension Variable {
  package var name: String {
    func joined(_ prefix: String, _ name: [UInt8]) -> String { prefix + String(decoding: name, as: UTF8.self) }
    return switch self {
    case .simple(let simple): simple.rawValue
    case .feature(let variable): variable.name
    case .argument(let name): joined("arg_", name)
    case .requestField(let name): joined("http_", name)
    case .cookie(let name): joined("cookie_", name)
    case .sentField(let name): joined("sent_http_", name)
    case .sentTrailer(let name): joined("sent_trailer_", name)
    case .upstreamField(let name): joined("upstream_http_", name)
    case .upstreamTrailer(let name): joined("upstream_trailer_", name)
    case .upstreamCookie(let name): joined("upstream_cookie_", name)
    case .capture(let number), .escapedCapture(let number): "\(number)"
    case .proxyTLV(let kind): "proxy_protocol_tlv_\(kind.name)"
    case .settable(_, let variable): variable.name
    case .slot(let index), .belowFolder(_, let index): "(variable \(index + 1) of set)"
    }
  }
}

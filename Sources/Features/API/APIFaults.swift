import Forward
import Traffic
import Upstream

extension APIFault {
  static let version = APIFault(status: 404, code: "UnknownVersion", text: "unknown version")
  static let upstream = APIFault(status: 404, code: "UpstreamNotFound", text: "upstream not found")
  static let server = APIFault(status: 404, code: "UpstreamServerNotFound", text: "server with this ID doesn't exist")
  static let serverZone = APIFault(
    status: 404, code: "ServerZoneNotFound", text: "server zone not found")
  static let resolver = APIFault(status: 404, code: "ResolverZoneNotFound", text: "resolver zone not found")
  static let disabled = APIFault(status: 405, code: "MethodDisabled", text: "method disabled")
  static let crossOrigin = APIFault(
    status: 403, code: "CrossOrigin", text: "a page of another origin may not use the API")
  static let stranger = APIFault(
    status: 403, code: "Forbidden",
    text: "anybody but root and the user that serves, at the other end of the socket, may not use the API")
  static func body(_ text: String) -> APIFault { APIFault(status: 400, code: "UpstreamConfFormatError", text: text) }
}

extension APIFault {
  init(_ fault: ServerListFault) {
    self =
      switch fault {
      case .fixed:
        APIFault(
          status: 400, code: "UpstreamStatic",
          text: "servers can't be added or removed: the group has a health check")
      case .exists: APIFault(status: 409, code: "EntryExists", text: "the group has a server with this address")
      case .full: APIFault(status: 409, code: "UpstreamFull", text: "the group has \(GroupList.limit) servers already")
      case .unknown: .server
      case .ofDNS:
        APIFault(status: 400, code: "UpstreamServerImmutable", text: "DNS says the addresses of this server's name")
      case .noBackup: .body("the group's method has no backup servers")
      }
  }
}

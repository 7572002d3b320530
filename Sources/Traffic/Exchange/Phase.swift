/// The phases that an exchange runs through, with nginx's names and order (`ngx_http_phases`). The log phase is
/// `Exchange.end`.
package enum Phase: Int, CaseIterable, Comparable {
  case serverRewrite, findLocation, rewrite, postRewrite, preaccess, access, postAccess, precontent, content

  package static func < (one: Phase, other: Phase) -> Bool { one.rawValue < other.rawValue }
}

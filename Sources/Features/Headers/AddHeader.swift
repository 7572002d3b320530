import Bytes
import Forward
import HTTP
import Language
import Observability
package import Traffic

/// add_header (nginx: ngx_http_headers_module)
struct AddHeader: LocationFeature {
  var fields: [AddedField]

  // MARK: Directives

  static let chapter = Chapter.fields
  fileprivate static let name = "add_header"
  private static let levels = DirectiveContexts.everyHTTP
  /// The values of `add_header_inherit` and `add_trailer_inherit`.
  static let inheritance = ArgumentForm.oneOf(["on", "off", "merge"])

  static let directives: [DirectiveEntry] = [
    .list(
      name, levels.union(.locationIf), .words(2...3, "FIELD VALUE [always]"), "",
      "Adds a field to the response to the client. ETag and Last-Modified replace the upstream's, and an empty value removes it. Control characters of a value become spaces, so `$ssl_client_cert` is one line.",
      example: "add_header Strict-Transport-Security \"max-age=31536000\" always;"),
    inherit,
  ]

  private static let inherit = DirectiveEntry.value(
    "add_header_inherit", levels, inheritance, "on",
    "What a level gets of the outer `add_header` lines: `merge` puts them before its own, `off` takes none.",
    example: "add_header_inherit merge;")

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> AddHeader? {
    let fields = AddedField.read(level.scope, name, &builder)
    return fields.isEmpty ? nil : AddHeader(fields: fields)
  }

  /// The fields by which a site protects the users of its pages. A level with lines of its own has none of the outer ones.
  private static let protecting: Set<String> = [
    "strict-transport-security", "content-security-policy", "x-frame-options", "x-content-type-options",
    "referrer-policy", "permissions-policy", "cross-origin-opener-policy", "cross-origin-embedder-policy",
    "cross-origin-resource-policy",
  ]

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    let scope = level.scope
    let lines = scope.own(name)
    guard !level.isConditional, let own = lines.first, inherit.line(in: scope) == nil else { return }
    // A page that a client sees has none of these responses.
    if builder.features.fixedResponse(scope) == .redirect || builder.features.servesSubrequestsAlone(level) { return }
    let kept = Set(lines.map { $0.text(0).lowercased() })
    let lost = (scope.outer?.inheritingList(name) ?? []).filter {
      let name = $0.text(0).lowercased()
      return protecting.contains(name) && !kept.contains(name)
    }
    guard let first = lost.first else { return }
    builder.warning(
      own.location,
      "\"add_header\" replaces the lines around it: the responses here lack \(lost.map { $0.text(0) }.joined(separator: ", "))",
      hint: "write \"add_header_inherit merge;\" here, or repeat the lines; they are at \(first.location)")
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.headFilters.append(AddedFields(fields)) }

  /// The statuses whose responses get fields without `always`, as in nginx.
  static func isUsual(_ status: UInt16) -> Bool {
    switch status {
    case 200, 201, 204, 206, 301, 302, 303, 304, 307, 308: true
    default: false
    }
  }
}

/// One `add_header` or `add_trailer` line.
package struct AddedField: Sendable, Hashable {
  package var name: [UInt8]
  package var value: Template
  /// With any status, not only 200, 201, 204, 206, 301, 302, 303, 304, 307, 308.
  package var always: Bool

  /// Builds the lines of `add_header` or `add_trailer`.
  static func read(_ scope: Scope, _ directive: String, _ builder: inout SettingsBuilder) -> [AddedField] {
    scope.inheritingList(directive).compactMap { line in
      if line.arguments.count > 2, line.text(2) != "always" {
        builder.error(
          line.place(2), "invalid parameter \"\(line.text(2))\"", hint: "\"always\", or quotes around the value")
        return nil
      }
      guard let name = builder.fieldName(line) else { return nil }
      if line.text(0).lowercased() == "content-length", directive == AddHeader.name {
        builder.warning(
          line.place(0), "\"\(line.text(0))\" is left out: sallyport sets it itself",
          hint: "remove this line: a response without a body, such as 204, has no such field")
        return nil
      }
      if ["content-length", "transfer-encoding"].contains(line.text(0).lowercased()) {
        builder.error(
          line.place(0), "\"\(line.text(0))\" can't be set by \(directive)",
          hint: "sallyport sets the framing fields itself: remove this line")
        return nil
      }
      return AddedField(name: name, value: builder.fieldValue(line), always: line.arguments.count > 2)
    }
  }
}

/// A field of `add_header` or `add_trailer`.
struct LiveField {
  let name: [UInt8]
  let value: CompiledTemplate
  let always: Bool
  /// ETag and Last-Modified: as in nginx, the field replaces that of the response, and an empty value removes it.
  let replaces: Bool

  init(_ field: AddedField) {
    name = field.name
    value = field.value.compiled
    always = field.always
    let id = name.withUnsafeBytes { FieldName.known($0) }
    replaces = id == .etag || id == .lastModified
  }
}

/// `add_header` of a location in one worker.
package final class AddedFields: HeadFilter {
  private let fields: [LiveField]

  init(_ fields: [AddedField]) { self.fields = fields.map { LiveField($0) } }

  /// Adds the fields; without `always`, only for the statuses that nginx lists.
  package override func change(_ exchange: Exchange) {
    let response = exchange.response
    let isUsual = AddHeader.isUsual(response.status)
    for field in fields where isUsual || field.always {
      // The value isn't built in the head's own storage, because a variable may read that head.
      var value = ByteBuffer()
      field.value.append(exchange, to: &value)
      if field.replaces { field.name.withUnsafeBytes { response.remove($0) } }
      guard !value.isEmpty else { continue }
      FieldValue.makeValid(&value, from: 0)
      _ = field.name.withUnsafeBytes { response.add($0, value.readable) }
    }
  }
}

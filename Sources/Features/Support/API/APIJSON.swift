import JSON
import Traffic

/// Reads the object that a body of the API is.
enum APIJSON {
  /// Bytes of the largest body.
  static let largest = 16 * 1024

  static func members(_ bytes: [UInt8]) throws(APIFault) -> [String: JSONValue] {
    let json: JSONValue
    var limits = JSONLimits()
    (limits.bytes, limits.depth, limits.values) = (largest, 3, 32)
    do throws(JSONFault) { json = try JSONValue(bytes, limits: limits) } catch {
      throw APIFault(status: 415, code: "JsonError", text: "json error: \(error)")
    }
    guard let members = json.members else {
      throw APIFault(status: 415, code: "JsonError", text: "json error: no object")
    }
    return members
  }
}

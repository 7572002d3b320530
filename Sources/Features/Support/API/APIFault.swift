import Traffic

/// Why the API refuses a request: nginx Plus's codes and texts.
package struct APIFault: Error, Equatable {
  package let status: Int
  package let code: String
  package let text: String

  static let notFound = APIFault(status: 404, code: "PathNotFound", text: "path not found")
  static let method = APIFault(status: 405, code: "MethodNotSupported", text: "method not supported")
}

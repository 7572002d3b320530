import Crypto
import Glibc
import Proxy

extension DamagedState {
  private static let most = 99

  /// Gives the file another name, so that no later state replaces it. Returns that name. Blocks.
  static func setAside(_ path: String) throws(NewFile.Failure) -> String {
    let names = ["\(path).damaged"] + (2...most).map { "\(path).damaged.\($0)" }
    // With so many, the last one is replaced.
    let name = names.first { access($0, F_OK) != 0 } ?? "\(path).damaged.\(most)"
    guard rename(path, name) == 0 else { throw NewFile.Failure("rename", path) }
    try NewFile.sync(NewFile.folder(of: path))
    return name
  }
}

import Enrolment
import Forward
package import Traffic

package enum Features {
  /// Every feature, in the order in which nginx's modules act: steps of one phase run in it, and responses pass filters in it.
  package static let all = FeatureList(each)

  /// The same, for a feature whose directives are made of those of others.
  static let each: [any DirectiveFeature.Type] = [
    Main.self, Workload.self, CoreHTTP.self, Listen.self, HTTP2.self, HTTP3.self, ServerNames.self, ClientBody.self,
    ResponseFraming.self,
    ACMECertificates.self, ServerTLS.self, ClientTrust.self, ClientRecord.self,
    ClientLimits.self, SharedStore.self, GuessStore.self, NameResolution.self, UpstreamGroups.self, Balance.self,
    Sticky.self, HealthChecks.self,
    StreamHealthChecks.self,
    StreamCore.self, StreamPreread.self, StartTLS.self, StreamSet.self,
    Map.self, Geo.self, SplitClients.self, Keyval.self, ClientAccess.self, ClientIdentity.self, SignedIdentity.self,
    RealClientCert.self, TrustCandidate.self,
    RealIP.self,
    Rewrite.self,
    Referers.self, LimitExcept.self, TraceContext.self, OpenTelemetry.self, LimitReq.self, LimitConn.self,
    Access.self, SatisfyAny.self, AuthBasic.self, AuthDelay.self, AuthRequest.self,
    PathReadingRules.self,
    ClientToken.self, Signatures.self, FileSettings.self, ContentTypes.self, RandomIndex.self, Autoindex.self,
    GzipStatic.self,
    Mirror.self, LogSubrequest.self,
    MessageEnvelopes.self, ProxyPass.self, UpstreamPass.self, Caches.self, AllowUpstream.self, GRPC.self, FastCGI.self,
    UWSGI.self,
    SCGI.self,
    ProgramParameters.self,
    StreamProxy.self, StreamReturn.self,
    StreamPass.self,
    UpstreamTLS.self, ProxyVia.self, ProxyAuth.self,
    MetricsLocation.self, StatusLocation.self, APILocation.self, StubStatus.self, EmptyGIF.self, EnrolmentSettings.self,
    Gunzip.self, SubFilter.self, CharsetConversion.self, Gzip.self, LimitRate.self, AddTrailer.self,
    Expires.self, AddHeader.self, Charset.self, EarlyHints.self, ErrorPages.self, AccessLogs.self, ErrorLogs.self,
    AuditLog.self,
  ]
}

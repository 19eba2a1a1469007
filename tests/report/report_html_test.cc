#include "converter/report/report_html.h"

#include <cctype>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "converter/report/report_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "</pre><script>alert('x')</script> \"quoted\" & \u660e\u65e5";

// A report whose every text is hostile.
ReportData HostileData() {
  ReportData data;
  data.summary = {.archive = kHostile,
                  .against = kHostile,
                  .data = kHostile,
                  .generation = "Needle 3",
                  .layers = 1,
                  .file_bytes = 1000,
                  .bit_map = "default=2",
                  .heads = {kHostile}};
  data.sizes = {{.kind = kHostile, .tensors = 1, .values = 128, .bytes = 1000}};
  data.tensors = {{.name = kHostile,
                   .place = "layer 0",
                   .role = kHostile,
                   .rows = 1,
                   .cols = 128,
                   .bytes = 34,
                   .error = 0.1,
                   .worst_group = 0.1}};
  data.places = {{.place = kHostile, .weights = 128, .error = 0.1, .theory = 0.1175}};
  data.failures = 1;
  data.failure_texts = {kHostile};
  data.indices = {{.width = format::Width::kBinary,
                   .entries = {-0.8, 0.8},
                   .counts = {1, 3},
                   .expected = {0.5, 0.5}}};
  data.norms = {.counts = {1}, .total = 1, .smallest = 1, .largest = 1};
  const verify::Divergence divergence{.positions = 2, .kl_mean = 0.5, .kl_max = 1, .top1 = 0.5};
  data.runs = {{.label = kHostile, .calls = {.examples = 2, .exact = 1}},
               {.label = kHostile,
                .calls = {.examples = 2, .exact = 1},
                .divergence = divergence,
                .by_position = {{.first = 0, .last = 1, .divergence = divergence}}}};
  data.examples = 2;
  data.device_run = 1;
  data.changed = 1;
  data.lost = 1;
  data.changes = {{.line = 7,
                   .query = kHostile,
                   .wanted = kHostile,
                   .reference = "same a same",
                   .answer = "same b same",
                   .reference_exact = true}};
  return data;
}

// Names of the elements in `html`, "/name" where one ends.
std::vector<std::string> Tags(const std::string& html) {
  std::vector<std::string> tags;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    size_t end = at + 1;
    while (end < html.size() && (std::isalnum(static_cast<unsigned char>(html[end])) != 0 ||
                                 html[end] == '/' || html[end] == '!')) {
      ++end;
    }
    std::string name = html.substr(at + 1, end - at - 1);
    if (html[html.find('>', at) - 1] == '/') name += "/";
    tags.push_back(name);
  }
  return tags;
}

TEST(ReportHtmlTest, EveryTextIsEscaped) {
  const std::string html = ReportHtml(HostileData());
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("'x'")));
  EXPECT_THAT(html, Not(HasSubstr("\"quoted\"")));
  EXPECT_THAT(html, HasSubstr("&lt;/pre&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; "
                              "&quot;quoted&quot; &amp; \u660e\u65e5"));
}

TEST(ReportHtmlTest, EveryElementIsClosed) {
  const std::set<std::string> empty = {"!DOCTYPE", "meta", "line/"};
  std::vector<std::string> open;
  for (const std::string& tag : Tags(ReportHtml(HostileData()))) {
    if (empty.count(tag) > 0) continue;
    if (!tag.starts_with('/')) {
      open.push_back(tag);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    ASSERT_EQ("/" + open.back(), tag);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(ReportHtmlTest, NeedsNothingElse) {
  const std::string html = ReportHtml(HostileData());
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import", "<link"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  }
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(ReportHtmlTest, IdsAreUniqueAndEveryChartHasItsTitle) {
  const std::string html = ReportHtml(HostileData());
  std::set<std::string> ids;
  for (size_t at = html.find(" id=\""); at != std::string::npos; at = html.find(" id=\"", at + 1)) {
    const std::string id = html.substr(at + 5, html.find('"', at + 5) - at - 5);
    EXPECT_TRUE(ids.insert(id).second) << id;
  }
  size_t charts = 0;
  for (size_t at = html.find("<svg"); at != std::string::npos; at = html.find("<svg", at + 1)) {
    ++charts;
    const size_t label = html.find("aria-labelledby=\"", at) + 17;
    EXPECT_EQ(ids.count(html.substr(label, html.find(' ', label) - label)), 1U);
  }
  EXPECT_EQ(charts, 5U);  // error, KL, top token, indices, norms
}

TEST(ReportHtmlTest, DependsOnTheDataAlone) {
  EXPECT_EQ(ReportHtml(HostileData()), ReportHtml(HostileData()));
}

TEST(ReportHtmlTest, MarksWhatDiffersByWholeCharacters) {
  ReportData data = HostileData();
  EXPECT_THAT(ReportHtml(data), HasSubstr("same <mark>a</mark> same"));
  EXPECT_THAT(ReportHtml(data), HasSubstr("same <mark>b</mark> same"));
  // Both letters are two bytes, of which the first is the same.
  data.changes[0].reference = "caf\u00e9.";
  data.changes[0].answer = "caf\u00e8.";
  EXPECT_THAT(ReportHtml(data), HasSubstr("caf<mark>\u00e9</mark>."));
  // The same last byte, other first bytes.
  data.changes[0].reference = "\u00e9";
  data.changes[0].answer = "\u0129";
  EXPECT_THAT(ReportHtml(data), HasSubstr("<mark>\u00e9</mark>"));
  // One text is the start of the other.
  data.changes[0].reference = "aa";
  data.changes[0].answer = "aaa";
  EXPECT_THAT(ReportHtml(data), HasSubstr(">aa</pre>"));
  EXPECT_THAT(ReportHtml(data), HasSubstr(">aa<mark>a</mark></pre>"));
}

TEST(ReportHtmlTest, SurvivesNumbersThatAreNone) {
  ReportData data = HostileData();
  data.runs[1].divergence->kl_mean = std::numeric_limits<double>::quiet_NaN();
  data.runs[1].by_position[0].divergence.kl_mean = std::numeric_limits<double>::infinity();
  data.places[0].error = std::numeric_limits<double>::quiet_NaN();
  const std::string html = ReportHtml(data);
  EXPECT_THAT(html, Not(HasSubstr("\"nan\"")));
  EXPECT_THAT(html, Not(HasSubstr("\"-nan\"")));
  EXPECT_THAT(html, Not(HasSubstr("\"inf\"")));
  EXPECT_TRUE(base::ParseJson(base::DumpJson(ReportJson(data))).ok());
}

TEST(ReportHtmlTest, LeavesOutWhatWasNotMeasured) {
  ReportData data = HostileData();
  data.places.clear();
  data.runs.clear();
  const std::string html = ReportHtml(data);
  EXPECT_THAT(html, Not(HasSubstr("Accuracy")));
  EXPECT_THAT(html, Not(HasSubstr("Theory")));
}

TEST(ReportHtmlTest, IsWrittenWholeOrNotAtAll) {
  const tests::TempFolder folder;
  EXPECT_OK(WriteReportHtml(HostileData(), folder.File("report.html")));
  EXPECT_EQ(tests::ReadFile(folder.File("report.html")), ReportHtml(HostileData()));
  EXPECT_FALSE(WriteReportHtml(HostileData(), folder.File("none/report.html")).ok());
  EXPECT_EQ(folder.Names(), (std::vector<std::string>{"report.html"}));
}

}  // namespace
}  // namespace needle::report

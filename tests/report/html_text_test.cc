#include "converter/report/html_text.h"

#include <limits>

#include "gtest/gtest.h"

namespace needle::report {
namespace {

TEST(HtmlTextTest, EscapesWhatHasMeaning) {
  EXPECT_EQ(Escape("<script>alert(\"it's\" & so on)</script>"),
            "&lt;script&gt;alert(&quot;it&#39;s&quot; &amp; so on)&lt;/script&gt;");
}

TEST(HtmlTextTest, KeepsTextOfAllLanguages) {
  EXPECT_EQ(Escape("\u660e\u65e5 \u00e9\n\t"), "\u660e\u65e5 \u00e9\n\t");
}

TEST(HtmlTextTest, ReplacesWhatNoDocumentMayHold) {
  EXPECT_EQ(Escape(std::string_view("a\0b\x1b\x7f", 5)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(Escape("\xE6\x97"), "\xEF\xBF\xBD");
}

TEST(HtmlTextTest, WritesNumbersForPeople) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(793251), "793.3 kB");
  EXPECT_EQ(BytesText(13700000), "13.70 MB");
  EXPECT_EQ(NumberText(0.00123456), "0.001235");
  EXPECT_EQ(NumberText(std::numeric_limits<double>::quiet_NaN()), "n/a");
  EXPECT_EQ(PercentText(0.985), "98.5%");
}

TEST(HtmlTextTest, TablesHaveCaptionsAndHeadings) {
  HtmlTable table("Sizes & more", {"Kind", ">Bytes"});
  table.AddRow({"a", "1"});
  EXPECT_EQ(
      table.Html(),
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Sizes &amp; more\">\n"
      "<table><caption><span>Sizes &amp; more</span></caption>\n<thead><tr><th "
      "scope=\"col\">Kind</th>"
      "<th scope=\"col\" class=\"num\">Bytes</th></tr></thead>\n<tbody>\n"
      "<tr><th scope=\"row\">a</th><td class=\"num\">1</td></tr>\n</tbody></table></div>\n");
}

}  // namespace
}  // namespace needle::report

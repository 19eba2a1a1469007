#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/output_place.h"
#include "base/status_macros.h"

namespace needle::cli {
namespace {

// A whole number of [spec.min, spec.max] in decimal digits; an error text otherwise.
std::string ReadNumber(const OptionSpec& spec, const std::string& text, uint64_t& target) {
  uint64_t value = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  if (digits && absl::SimpleAtoi(text, &value) && value >= spec.min && value <= spec.max) {
    target = value;
    return "";
  }
  if (spec.max == UINT64_MAX) {
    return absl::StrFormat("'%s', want a whole number of at least %d", text, spec.min);
  }
  return absl::StrFormat("'%s', want a whole number from %d to %d", text, spec.min, spec.max);
}

// A number of [0, spec.most]; an error text otherwise.
std::string ReadReal(const OptionSpec& spec, const std::string& text, double& target) {
  double value = 0;
  if (absl::SimpleAtod(text, &value) && std::isfinite(value) && value >= 0 && value <= spec.most) {
    target = value;
    return "";
  }
  if (std::isinf(spec.most)) return absl::StrFormat("'%s', want a number of at least 0", text);
  return absl::StrFormat("'%s', want a number from 0 to %g%s", text, spec.most,
                         spec.most == 1 ? ", a share and not a percentage" : "");
}

std::string ReadText(const OptionSpec& spec, const std::string& text, std::string& target) {
  const std::vector<std::string> choices = spec.choices();
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return absl::StrFormat("'%s', want %s", text, absl::StrJoin(choices, " or "));
  }
  if (text.find('\0') != std::string::npos) return "holds a NUL";
  target = text;
  return "";
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// What CLI11 could not place, told with the option that may have been meant.
absl::Status ExtrasStatus(const CLI::App& app, const std::vector<OptionSpec>& options) {
  const std::string extra = app.remaining(true).empty() ? "" : app.remaining(true).front();
  std::vector<std::string> names = {"--help"};
  for (const OptionSpec& option : options) {
    if (!option.positional()) names.push_back(option.long_name());
  }
  if (!extra.starts_with('-')) {
    return absl::InvalidArgumentError(absl::StrFormat("unexpected argument '%s'", extra));
  }
  const std::string near = NearestWord(extra.substr(0, extra.find('=')), names);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", extra, near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace

std::vector<std::string> OptionSpec::choices() const {
  if (value.find('|') == std::string::npos) return {};
  return absl::StrSplit(value, '|');
}

std::vector<std::string> OptionSpec::name_list() const { return absl::StrSplit(names, ','); }

void Command::AddOption(OptionSpec spec, Reader reader) {
  options_.push_back(std::move(spec));
  readers_.push_back(std::move(reader));
}

void Command::Add(OptionSpec spec, bool* target) {
  AddOption(std::move(spec), [target](const std::string&) {
    *target = true;
    return std::string();
  });
}

void Command::Add(OptionSpec spec, std::string* target) {
  AddOption(spec,
            [spec, target](const std::string& text) { return ReadText(spec, text, *target); });
}

void Command::Add(OptionSpec spec, std::optional<std::string>* target) {
  AddOption(spec, [spec, target](const std::string& text) {
    return ReadText(spec, text, target->emplace());
  });
}

void Command::Add(OptionSpec spec, std::vector<std::string>* target) {
  spec.repeatable = true;
  AddOption(spec, [spec, target](const std::string& text) {
    return ReadText(spec, text, target->emplace_back());
  });
}

void Command::Add(OptionSpec spec, uint64_t* target) {
  AddOption(spec,
            [spec, target](const std::string& text) { return ReadNumber(spec, text, *target); });
}

void Command::Add(OptionSpec spec, std::optional<uint64_t>* target) {
  AddOption(spec, [spec, target](const std::string& text) {
    return ReadNumber(spec, text, target->emplace());
  });
}

void Command::Add(OptionSpec spec, double* target) {
  AddOption(spec,
            [spec, target](const std::string& text) { return ReadReal(spec, text, *target); });
}

void Command::Add(OptionSpec spec, std::optional<double>* target) {
  AddOption(spec, [spec, target](const std::string& text) {
    return ReadReal(spec, text, target->emplace());
  });
}

absl::StatusOr<std::vector<Command::Given>> Command::Split(
    const std::vector<std::string>& arguments) const {
  CLI::App app;
  app.set_help_flag();
  std::vector<Given> given(options_.size());
  std::vector<CLI::Option*> parsed(options_.size());
  for (size_t i = 0; i < options_.size(); ++i) {
    const OptionSpec& option = options_[i];
    if (option.flag()) {
      parsed[i] = app.add_flag(option.names);
      continue;
    }
    // One value an occurrence; how many occurrences are right is told by Assign, in our words.
    parsed[i] = app.add_option(option.names, given[i].values)->type_size(1);
    parsed[i]->expected(option.positional() && !option.repeatable ? 1 : -1);
    parsed[i]->allow_extra_args(option.positional() && option.repeatable);
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ExtrasError&) {
    return ExtrasStatus(app, options_);
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  for (size_t i = 0; i < options_.size(); ++i) given[i].count = parsed[i]->count();
  return given;
}

absl::Status Command::Assign(const std::vector<Given>& given) const {
  for (size_t i = 0; i < options_.size(); ++i) {
    const OptionSpec& option = options_[i];
    if (option.required && given[i].count == 0) {
      return absl::InvalidArgumentError(absl::StrCat(option.long_name(), " is missing"));
    }
    if (!option.repeatable && given[i].count > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(option.long_name(), " is given more than once"));
    }
    if (option.flag() && given[i].count > 0) readers_[i]("");
    for (const std::string& value : given[i].values) {
      if (const std::string problem = readers_[i](value); !problem.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(option.long_name(), ": ", problem));
      }
    }
  }
  return absl::OkStatus();
}

void Command::CollectFiles(const std::vector<Given>& given) {
  for (size_t i = 0; i < options_.size(); ++i) {
    if (options_[i].value != "FILE") continue;
    for (const std::string& value : given[i].values) {
      if (value == "-") continue;
      const FileUse use = options_[i].use;
      const bool writes =
          use == FileUse::kWrites || (use == FileUse::kReadsOrWrites && !base::Stat(value));
      (writes ? written_files_ : read_files_).push_back(value);
    }
  }
}

absl::Status Command::CheckFiles() const {
  return base::CheckDistinct(written_files_, read_files_);
}

absl::Status Command::Parse(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Given> given, Split(arguments));
  const auto has = [&](const std::string& name) {
    for (size_t i = 0; i < options_.size(); ++i) {
      if (options_[i].long_name() == name) return given[i].count > 0;
    }
    return false;
  };
  for (const auto& [first, second] : excluded_) {
    if (has(first) && has(second)) {
      return absl::InvalidArgumentError(
          absl::StrCat(first, " and ", second, " exclude each other"));
    }
  }
  for (const auto& [option, needed] : needed_) {
    if (has(option) && !has(needed)) {
      return absl::InvalidArgumentError(absl::StrCat(option, " needs ", needed));
    }
  }
  CollectFiles(given);
  return Assign(given);
}

Command& CommandSet::Add(CommandSpec spec) {
  return *commands_.emplace_back(std::make_unique<Command>(std::move(spec)));
}

Command* CommandSet::Find(std::string_view name) const {
  for (const auto& command : commands_) {
    if (command->spec().name == name) return command.get();
  }
  return nullptr;
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& words) {
  std::string nearest;
  size_t least = word.size() / 3 + 1;  // so many slips are forgiven
  for (const std::string& candidate : words) {
    const size_t distance = EditDistance(word, candidate);
    if (distance <= least && distance < std::max(word.size(), candidate.size())) {
      if (distance < least || nearest.empty()) nearest = candidate;
      least = std::min(least, distance);
    }
  }
  return nearest;
}

}  // namespace needle::cli

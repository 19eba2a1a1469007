#include "cli/completion_script.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace needle::cli {
namespace {

std::vector<const Command*> Listed(const CommandSet& commands) {
  std::vector<const Command*> listed;
  for (const auto& command : commands.commands()) {
    if (!command->spec().heading.empty()) listed.push_back(command.get());
  }
  return listed;
}

std::string Names(const CommandSet& commands, const char* separator) {
  std::vector<std::string> names;
  for (const Command* command : Listed(commands)) names.push_back(command->spec().name);
  return absl::StrJoin(names, separator);
}

bool TakesPath(const OptionSpec& option) { return option.value == "FILE" || option.value == "DIR"; }

// All option names of a command, for bash's word list.
std::string OptionWords(const Command& command) {
  std::vector<std::string> words = {"-h", "--help"};
  for (const OptionSpec& option : command.options()) {
    if (option.positional()) continue;
    for (const std::string& name : option.name_list()) words.push_back(name);
  }
  return absl::StrJoin(words, " ");
}

// bash's case arms for the values of a command's options (or of its positional arguments).
std::string BashChoices(const Command& command) {
  std::string text;
  for (const OptionSpec& option : command.options()) {
    if (option.choices().empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.name_list()) {
      patterns.push_back(
          option.positional()
              ? absl::StrCat("\"", command.spec().name, " ", command.spec().name, "\"")
              : absl::StrCat("\"", command.spec().name, " ", name, "\""));
    }
    absl::StrAppend(&text, "    ", absl::StrJoin(patterns, "|"), ") words=\"",
                    absl::StrJoin(option.choices(), " "), "\" ;;\n");
  }
  return text;
}

std::string SingleQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// One argument of zsh's _arguments.
std::string ZshOption(const OptionSpec& option) {
  const std::string help =
      absl::StrReplaceAll(option.help, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
  const std::string choices = absl::StrJoin(option.choices(), " ");
  const std::string value = option.flag()       ? ""
                            : !choices.empty()  ? absl::StrCat(":value:(", choices, ")")
                            : TakesPath(option) ? absl::StrCat(":", option.value, ":_files")
                                                : absl::StrCat(":", option.value, ": ");
  if (option.positional()) {
    return SingleQuoted(absl::StrCat(option.repeatable ? "*" : "", ":", option.names,
                                     choices.empty() ? ":_files" : ":(" + choices + ")"));
  }
  std::vector<std::string> arguments;
  for (const std::string& name : option.name_list()) {
    arguments.push_back(SingleQuoted(absl::StrCat(
        option.repeatable ? "*" : absl::StrCat("(", absl::StrJoin(option.name_list(), " "), ")"),
        name, "[", help, "]", value)));
  }
  return absl::StrJoin(arguments, " ");
}

std::string FishOption(const std::string& command, const OptionSpec& option) {
  std::string text =
      absl::StrCat("complete -c needle-build -n '__fish_seen_subcommand_from ", command, "'");
  if (!option.positional()) {
    for (const std::string& name : option.name_list()) {
      absl::StrAppend(&text, name.starts_with("--") ? " -l " : " -s ",
                      name.substr(name.find_first_not_of('-')));
    }
  }
  if (!option.choices().empty()) {
    absl::StrAppend(&text, option.positional() ? " -f" : " -x", " -a ",
                    SingleQuoted(absl::StrJoin(option.choices(), " ")));
  } else if (!option.flag() && !option.positional()) {
    absl::StrAppend(&text, TakesPath(option) ? " -r -F" : " -x");
  }
  const std::string help = absl::StrReplaceAll(option.help, {{"\\", "\\\\"}, {"'", "\\'"}});
  return absl::StrCat(text, " -d '", help, "'\n");
}

}  // namespace

std::string BashCompletion(const CommandSet& commands) {
  std::string options, choices;
  for (const Command* command : Listed(commands)) {
    absl::StrAppend(&options, "      ", command->spec().name, ") words=\"", OptionWords(*command),
                    "\" ;;\n");
    choices += BashChoices(*command);
  }
  // An empty answer makes bash complete file names.
  return absl::StrCat(
      "# bash completion for needle-build, made by: needle-build completion bash\n"
      "_needle_build() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\"\"\n"
      "  local command=build\n"
      "  COMPREPLY=()\n"
      "  case ${COMP_WORDS[1]} in\n    ",
      Names(commands, "|"),
      ") command=${COMP_WORDS[1]} ;;\n"
      "  esac\n"
      "  case \"$command $prev\" in\n",
      choices,
      "  esac\n"
      "  if [[ -z $words && $cur == -* ]]; then\n"
      "    case $command in\n",
      options,
      "    esac\n"
      "    ((COMP_CWORD == 1)) && words+=\" --version\"\n"
      "  elif [[ -z $words ]] && ((COMP_CWORD == 1)); then\n"
      "    words=\"",
      Names(commands, " "),
      "\"\n"
      "  fi\n"
      "  [[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "  return 0\n"
      "}\n"
      "complete -o bashdefault -o default -F _needle_build needle-build\n");
}

std::string ZshCompletion(const CommandSet& commands) {
  std::string described, arms;
  for (const Command* command : Listed(commands)) {
    const std::string& name = command->spec().name;
    absl::StrAppend(&described, "    ",
                    SingleQuoted(absl::StrCat(name, ":", command->spec().summary)), "\n");
    absl::StrAppend(&arms, "    ", name, ")\n      _arguments -s");
    for (const OptionSpec& option : command->options()) {
      absl::StrAppend(&arms, " \\\n        ", ZshOption(option));
    }
    absl::StrAppend(&arms, " \\\n        '(-h --help)'{-h,--help}'[print this help]' ;;\n");
  }
  return absl::StrCat(
      "#compdef needle-build\n"
      "# zsh completion for needle-build, made by: needle-build completion zsh\n"
      "_needle_build() {\n"
      "  local -a commands\n"
      "  commands=(\n",
      described,
      "  )\n"
      "  local command=build\n"
      "  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
      "    _describe command commands\n"
      "    _files\n"
      "    return\n"
      "  fi\n"
      "  if ((${commands[(I)$words[2]:*]})); then\n"
      "    command=$words[2]\n"
      "    shift words\n"
      "    ((CURRENT--))\n"
      "  fi\n"
      "  case $command in\n",
      arms,
      "  esac\n"
      "}\n"
      "_needle_build \"$@\"\n");
}

std::string FishCompletion(const CommandSet& commands) {
  std::string text =
      "# fish completion for needle-build, made by: needle-build completion fish\n"
      "complete -c needle-build -n __fish_use_subcommand -l version -d 'print the version'\n"
      "complete -c needle-build -s h -l help -d 'print help'\n";
  for (const Command* command : Listed(commands)) {
    const std::string& name = command->spec().name;
    absl::StrAppend(&text, "complete -c needle-build -n __fish_use_subcommand -a ", name, " -d '",
                    absl::StrReplaceAll(command->spec().summary, {{"'", "\\'"}}), "'\n");
    for (const OptionSpec& option : command->options()) {
      if (option.positional() && option.choices().empty()) continue;
      text += FishOption(name, option);
    }
  }
  return text;
}

}  // namespace needle::cli

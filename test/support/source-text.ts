/**
 * As much of TypeScript as the tidy test has to understand: where comments, strings and regular expressions are, and
 * where functions begin and end. TypeScript 7 has no parser to be called from JavaScript yet.
 */

/** A file's text in two versions of the same length, with the same line breaks. */
export type SourceText = {
  /** Comments are blanks. */
  text: string
  /** Comments, regular expressions and what stands inside quotes are blanks; what `${}` holds is code. */
  code: string
}

const REGEX_MAY_FOLLOW =
  /(?:^|[=(,[!&|?:;{}<>+\-*%~^]|=>|\b(?:return|typeof|case|in|of|do|else|await|yield|throw|void|delete|instanceof))$/

export function readSource(source: string): SourceText {
  const text = source.split('')
  const code = source.split('')
  const blank = (into: string[], from: number, to: number) => {
    for (let at = from; at < to; at++) if (into[at] !== '\n') into[at] = ' '
  }
  /** What closes the innermost `{`: a block, or the `${}` of a template. */
  const braces: ('block' | 'template')[] = []
  let at = 0
  while (at < source.length) {
    const rest = source.slice(at, at + 2)
    let end = at + 1
    if (rest === '//' || rest === '/*') {
      end = endOfComment(source, at, rest)
      blank(text, at, end)
      blank(code, at, end)
    } else if (rest[0] === "'" || rest[0] === '"') {
      end = endOfQuote(source, at, rest[0])
      blank(code, at + 1, end - 1)
    } else if (rest[0] === '`' || (rest[0] === '}' && braces.at(-1) === 'template')) {
      if (rest[0] === '}') braces.pop()
      end = endOfTemplatePart(source, at)
      if (source[end - 1] === '{') braces.push('template')
      blank(code, at + 1, end - 1)
      if (source[end - 1] === '{') code[end - 2] = '$'
    } else if (
      rest[0] === '/' &&
      REGEX_MAY_FOLLOW.test(
        code
          .slice(Math.max(0, at - 60), at)
          .join('')
          .trimEnd(),
      )
    ) {
      end = endOfRegex(source, at)
      blank(code, at, end)
    } else if (rest[0] === '{') braces.push('block')
    else if (rest[0] === '}') braces.pop()
    at = end
  }
  return { text: text.join(''), code: code.join('') }
}

function endOfComment(source: string, at: number, kind: string): number {
  const end = kind === '//' ? source.indexOf('\n', at) : source.indexOf('*/', at) + 2
  return end < 2 ? source.length : end
}

function endOfQuote(source: string, start: number, quote: string): number {
  for (let at = start + 1; at < source.length; at++) {
    if (source[at] === '\\') at++
    else if (source[at] === quote || source[at] === '\n') return at + 1
  }
  return source.length
}

/** From a backtick or from the `}` that ends an expression, up to past the closing backtick or past `${`. */
function endOfTemplatePart(source: string, start: number): number {
  for (let at = start + 1; at < source.length; at++) {
    if (source[at] === '\\') at++
    else if (source[at] === '`') return at + 1
    else if (source.startsWith('${', at)) return at + 2
  }
  return source.length
}

function endOfRegex(source: string, start: number): number {
  let inClass = false
  for (let at = start + 1; at < source.length && source[at] !== '\n'; at++) {
    if (source[at] === '\\') at++
    else if (source[at] === '[') inClass = true
    else if (source[at] === ']') inClass = false
    else if (source[at] === '/' && !inClass) return at + 1
  }
  return start + 1
}

export function lineOf(source: string, at: number): number {
  return source.slice(0, at).split('\n').length
}

const OPENS = '([{'
const CLOSES = ')]}'

/** Every function with a body in braces: its first line (that of its parameters) and how many lines it has. */
export function functionsIn(code: string): { line: number; lines: number }[] {
  const found: { line: number; lines: number }[] = []
  const open: { at: number; head: number | undefined }[] = []
  /** Where the parenthesis began that ends at a place. */
  const beginOf = new Map<number, number>()
  for (let at = 0; at < code.length; at++) {
    const mark = code[at]!
    if (OPENS.includes(mark)) {
      open.push({ at, head: mark === '{' ? functionHead(code, at, beginOf) : undefined })
    } else if (CLOSES.includes(mark)) {
      const begin = open.pop()
      if (!begin) continue
      if (mark === ')') beginOf.set(at, begin.at)
      if (begin.head === undefined) continue
      const line = lineOf(code, begin.head)
      found.push({ line, lines: lineOf(code, at) - line + 1 })
    }
  }
  return found
}

const NO_FUNCTION = /\b(?:if|for|while|switch|catch|with|await)\s*$/

/** Where the function begins whose body opens at a brace, or undefined when the brace opens something else. */
function functionHead(code: string, brace: number, beginOf: ReadonlyMap<number, number>): number | undefined {
  const before = lastMark(code, brace)
  if (code.slice(before - 1, before + 1) === '=>') {
    const parameters = endOfParameters(code, before - 1)
    return (parameters === undefined ? undefined : beginOf.get(parameters)) ?? before
  }
  const parameters = code[before] === ')' ? before : endOfParameters(code, brace)
  const begin = parameters === undefined ? undefined : beginOf.get(parameters)
  return begin === undefined || NO_FUNCTION.test(code.slice(0, begin)) ? undefined : begin
}

/** The `)` of `(…): Type` or of `(…)`, read backwards from what follows; a return type stands on one line. */
function endOfParameters(code: string, from: number): number | undefined {
  let depth = 0
  for (let at = from - 1; at >= 0; at--) {
    const mark = code[at]!
    if (depth === 0 && mark === ':') {
      const before = lastMark(code, at)
      return code[before] === ')' ? before : undefined
    }
    if (depth === 0 && mark === ')' && code.slice(at + 1, from).trim() === '') return at
    const isArrow = mark === '>' && code[at - 1] === '='
    if (CLOSES.includes(mark) || (mark === '>' && !isArrow)) depth++
    else if (OPENS.includes(mark) || mark === '<') depth--
    if (depth < 0 || (depth === 0 && (mark === ';' || mark === ',' || mark === '\n'))) return undefined
  }
  return undefined
}

function lastMark(code: string, before: number): number {
  let at = before - 1
  while (at >= 0 && /\s/.test(code[at]!)) at--
  return at
}

export type Import = {
  target: string
  line: number
  /** Named by a URL: a worker's entry point, not a module whose names are used. */
  isUrl: boolean
}

/** Static and dynamic imports, re-exports, and files named by `new URL('./…', import.meta.url)`. */
export function importsIn({ text, code }: SourceText): Import[] {
  const found: Import[] = []
  const forms = /\bfrom\s*(['"])(.*?)\1|\bimport\s*\(?\s*(['"])(.*?)\3|\bnew URL\(\s*(['"`])(\..*?)\5/g
  for (const match of text.matchAll(forms)) {
    // A quoted text that talks about imports is none: its words are blanks in `code`.
    if (!/^(?:from|import|new)/.test(code.slice(match.index))) continue
    const target = match[2] ?? match[4] ?? match[6] ?? ''
    found.push({ target, line: lineOf(text, match.index), isUrl: match[6] !== undefined })
  }
  return found
}

const FIELD = /^ {2}(?:(?:static|override|readonly|private|protected|public|declare) )*#?\w+[?!]?(?=:| =)/

/** The classes of a module, from their heads to the closing braces. */
export function classesIn(code: string): { line: number; name: string; lines: number; fields: number }[] {
  const lines = code.split('\n')
  return lines.flatMap((head, at) => {
    const name = /^(?:export )?(?:abstract )?class (\w+)/.exec(head)?.[1]
    if (name === undefined) return []
    const length = lines.slice(at).indexOf('}') + 1
    const fields = lines.slice(at + 1, at + length).filter((line) => FIELD.test(line)).length
    return [{ line: at + 1, name, lines: length, fields }]
  })
}

/** The comments of a file and the parts of doc comments behind a blank line or a tag, each on one line. */
export function commentsIn({ raw, text }: { raw: string; text: string }): { text: string; line: number }[] {
  const found: { text: string; line: number }[] = []
  let begun: { text: string; line: number } | null = null
  const texts = text.split('\n')
  for (const [at, line] of raw.split('\n').entries()) {
    const comment = commentOf(line, texts[at] ?? '')
    const tagged = /^@(?:param (?:\[[^\]]*\]|\S+)|returns|throws)\s*(.*)$/.exec(comment ?? '')
    const isNew = begun === null || tagged !== null || /^\s*\/\*/.test(line)
    if (comment === null || comment === '') begun = null
    else if (isNew) {
      begun = { text: tagged?.[1] ?? comment, line: at + 1 }
      found.push(begun)
    } else if (begun !== null) begun.text += ` ${comment}`
  }
  return found
}

/** @returns null: the line holds no comment */
function commentOf(raw: string, text: string): string | null {
  const from = text.trimEnd().length
  const comment = raw.slice(from).trim()
  if (comment === '' || !/^(?:\/\/|\/\*|\*)/.test(comment)) return null
  return comment
    .replace(/^(?:\/\/|\/\*\*?|\*\/?) ?/, '')
    .replace(/ ?\*\/$/, '')
    .trim()
}

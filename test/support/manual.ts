import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** A page of the manual. */
export interface Page {
  /** Path in the repository. */
  readonly path: string
  readonly text: string
}

/** The README and every page of `docs/`, in the order in which a newcomer reads them. */
export const MANUAL: readonly Page[] = [
  'README.md',
  ...readdirSync(`${ROOT}docs`)
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `docs/${name}`),
].map((path) => ({ path, text: readFileSync(ROOT + path, 'utf8') }))

/** A fenced block of a page. */
export interface Block {
  readonly page: string
  /** Line of the page on which the block begins. */
  readonly line: number
  readonly language: string
  readonly text: string
  /** The reason in the comment `not run: …` above the block; null where there is none. */
  readonly notRun: string | null
}

export function blocksOf({ path, text }: Page): Block[] {
  const fences =
    /^(?:<!-- not run: (?<reason>.*) -->\n\n?)?```(?<language>\w*)[^\n]*\n(?<content>[\s\S]*?)^```$/gm
  return [...text.matchAll(fences)].map(({ index, groups = {} }) => ({
    page: path,
    line: text.slice(0, index).split('\n').length,
    language: groups.language ?? '',
    text: groups.content ?? '',
    notRun: groups.reason ?? null,
  }))
}

/** A page without its blocks of code. */
export function proseOf(text: string): string {
  return text.replaceAll(/^```.*\n[\s\S]*?^```$/gm, '')
}

/**
 * The text under a heading of the manual, with the headings below it.
 *
 * @throws Error when not exactly one page has the heading
 */
export function section(title: string, page?: string): string {
  const found = MANUAL.filter(({ path }) => page === undefined || path === page).flatMap(({ text }) => {
    const headings = [...text.matchAll(/^(#+) (.*)$/gm)]
    return headings
      .filter(([, , name]) => name === title)
      .map(({ index, 1: level = '', 0: heading }) => {
        const next = headings.find((one) => one.index > index && (one[1]?.length ?? 0) <= level.length)
        return text.slice(index + heading.length, next?.index)
      })
  })
  if (found.length !== 1) throw new Error(`${found.length} headings "${title}" in the manual`)
  return found[0] ?? ''
}

/** The words in backticks, outside blocks of code. */
export function codeWords(text: string): string[] {
  return [...proseOf(text).matchAll(/`([^`]+)`/g)].map(([, word = '']) => word)
}

/** The anchor of each heading, as GitHub makes them: a heading that comes again gets a number. */
export function anchorsOf(text: string): string[] {
  const seen = new Map<string, number>()
  return [...proseOf(text).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => {
    const anchor = title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
    const before = seen.get(anchor) ?? 0
    seen.set(anchor, before + 1)
    return before === 0 ? anchor : `${anchor}-${before}`
  })
}

import { type CutSource, copyCut } from './cut-copy.ts'

/** Matches a statement of one line that tells a trace something, or gives a context one; under a condition or not. */
const STATEMENT = /^ *(?:if \(.*\) )?(?:this\.#(?:request\.)?)?context\.trace(?:\?\.\w+\(.*\)| = .*)\n/gm
/** Matches a member of an object that is read from a trace. */
const MEMBER = /^ *\w+: context\.trace\?\.\w+,\n/gm
/** Matches a value that is read from a trace first, where there is another one without it. */
const ALTERNATIVE = /\b(?:this\.|context\.)?trace\?\.\w+(?:\(\))? \?\? /g
/** Matches a use of a trace in any other form. */
const LEFT = /trace\?\.|\btracing\?\.|\.trace\b/

const CUTS_LEAST = 20

/** A source without its trace calls, and how many it had. @throws Error when one has another form */
export function withoutTracing(source: string): CutSource {
  let cuts = 0
  const cut = () => {
    cuts += 1
    return ''
  }
  const text = source.replace(STATEMENT, cut).replace(MEMBER, cut).replace(ALTERNATIVE, cut)
  const left = text.split('\n').find((line) => LEFT.test(line.replace(/\/\*.*|^ *\*.*/, '')))
  if (left !== undefined) throw new Error(`this line is no trace call of a known form: ${left.trim()}`)
  return { text, cuts }
}

/** A copy of the tree in which no request knows of tracing, for a comparison with one that knows and has it off. */
export function copyUntraced(): string {
  const files = 'gateway/{call,api,jobs,live}/**/*.ts'
  return copyCut('tracing', { files, cut: withoutTracing, least: CUTS_LEAST })
}

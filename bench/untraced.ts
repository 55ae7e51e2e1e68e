import { type CutSource, copyCut } from './cut-copy.ts'

/** A statement of one line that tells a trace something, or gives a trail one; under a condition or not. */
const STATEMENT = /^ *(?:if \(.*\) )?(?:this\.#|request\.)?trail\.trace(?:\?\.\w+\(.*\)| = .*)\n/gm
/** A member of an object that is asked of a trace. */
const MEMBER = /^ *\w+: trail\.trace\?\.\w+,\n/gm
/** What is asked of a trace first, where there is something else without it. */
const ALTERNATIVE = /\btrail\.trace\?\.\w+(?:\(\))? \?\? /g
/** Whatever of that is left when all of it was cut. */
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

/** A copy of the sources in which no request knows of tracing, for a comparison with one that knows and has it off. */
export function copyUntraced(): string {
  const files = '{gateway,routes}/**/*.ts'
  return copyCut('tracing', { files, cut: withoutTracing, least: CUTS_LEAST })
}

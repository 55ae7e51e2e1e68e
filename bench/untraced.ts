import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './peers/install.ts'

/** A statement of one line that tells a trace something, or gives a trail one; under a condition or not. */
const STATEMENT = /^ *(?:if \(.*\) )?(?:this\.#|request\.)?trail\.trace(?:\?\.\w+\(.*\)| = .*)\n/gm
/** A member of an object that is asked of a trace. */
const MEMBER = /^ *\w+: trail\.trace\?\.\w+,\n/gm
/** What is asked of a trace first, where there is something else without it. */
const ALTERNATIVE = /\btrail\.trace\?\.\w+(?:\(\))? \?\? /g
/** Whatever of that is left when all of it was cut. */
const LEFT = /trace\?\.|\btracing\?\.|\.trace\b/

/** Fewer in all would mean that the sources are written otherwise by now, and little was cut. */
const CUTS_LEAST = 20

/** A source without its trace calls, and how many it had. @throws Error when one has another form */
export function withoutTracing(source: string): { readonly text: string; readonly cuts: number } {
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

/**
 * A copy of the sources in which no request knows of tracing, for a comparison with one that knows and has it off. Goes
 * with the process.
 *
 * @returns folder of the copy
 * @throws  Error when little was cut
 */
export function copyUntraced(): string {
  const folder = mkdtempSync(join(tmpdir(), 'larkway-untraced-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const source = join(folder, 'src')
  cpSync(join(ROOT, 'src'), source, { recursive: true })
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  let cuts = 0
  for (const path of globSync('{gateway,routes}/**/*.ts', { cwd: source })) {
    const cut = withoutTracing(readFileSync(join(source, path), 'utf8'))
    if (cut.cuts > 0) writeFileSync(join(source, path), cut.text)
    cuts += cut.cuts
  }
  if (cuts < CUTS_LEAST) throw new Error(`only ${cuts} trace calls were cut`)
  return source
}

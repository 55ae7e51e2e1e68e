import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './peers/install.ts'

/** A source without something, and how often that was cut out of it. */
export interface CutSource {
  readonly text: string
  readonly cuts: number
}

/**
 * A copy of the tree whose sources lack something, for a comparison with one that has it: it can be compiled as well.
 * Goes with the process.
 *
 * @param name  what is missing in it
 * @param files pattern of the files to cut
 * @param least fewer cuts in all would mean that the sources are written otherwise by now, and little was cut
 * @returns its folder
 * @throws  Error when little was cut; whatever `cut` throws
 */
export function copyCut(
  name: string,
  { files, cut, least }: { files: string; cut: (source: string) => CutSource; least: number },
): string {
  const folder = mkdtempSync(join(tmpdir(), `larkway-without-${name}-`))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const source = join(folder, 'src')
  for (const part of ['src', 'scripts', 'package.json', 'package-lock.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  let cuts = 0
  for (const path of globSync(files, { cwd: source })) {
    const without = cut(readFileSync(join(source, path), 'utf8'))
    if (without.cuts > 0) writeFileSync(join(source, path), without.text)
    cuts += without.cuts
  }
  if (cuts < least) throw new Error(`without ${name}: only ${cuts} places were cut`)
  return folder
}

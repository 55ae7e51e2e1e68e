import { join } from 'node:path'
import { findBase, provideBase } from '../../bench/base.ts'
import type { Program } from '../support/program.ts'

/**
 * The last release, or what stands for it until there is one: today's program has to be able to take over from it and
 * to hand back to it. Another one: LARKWAY_TEST_RELEASE=<commit>.
 */
const RELEASE = process.env.LARKWAY_TEST_RELEASE ?? 'f28c83baf90711e6fde919a76445a7db139cae64'

const found = findBase(null, RELEASE)

/** Why there is no release to start, for the skip of a test: a shallow clone does not have it. */
export const withoutRelease: string | false = 'commit' in found ? false : `git does not know ${RELEASE}`

/** The server of the last release, which runs from its sources. */
export async function releaseProgram(): Promise<Program> {
  if (!('commit' in found)) throw new Error(found.reason)
  const { folder } = await provideBase(found.commit)
  return { args: [join(folder, 'src', 'main.ts')], env: {} }
}

import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { importsIn, readSource } from './source-text.ts'

export const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url))

/** A file of `src/` that imports another one, by their paths in it. */
export interface SourceImport {
  readonly from: string
  readonly to: string
}

/** Files of `src/` in TypeScript and Lua, by their paths in it. */
export function sourceFiles(): string[] {
  return readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(?:ts|lua)$/.test(path))
    .sort()
}

export const readSourceFile = (path: string): string => readFileSync(SOURCES + path, 'utf8')

/** The imports within `src/`, for types too. */
export function sourceImports(): SourceImport[] {
  return sourceFiles()
    .filter((path) => path.endsWith('.ts'))
    .flatMap((from) =>
      importsIn(readSource(readSourceFile(from)))
        .filter(({ target }) => target.startsWith('.'))
        .map(({ target }) => ({ from, to: posix.join(posix.dirname(from), target) }))
        .filter(({ to }) => !to.startsWith('..')),
    )
}

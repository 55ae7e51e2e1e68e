import { stripTypeScriptTypes } from 'node:module'

/** How Node's warning about it begins. That it may change is known: the tests load every module of the page. */
const WARNING = 'stripTypeScriptTypes '

/**
 * JavaScript out of TypeScript whose types can be erased. It is printed anew after that, without comments: they are a
 * sixth of what a browser would load. Node warns once that this is experimental, which no operator has to be told:
 * that one warning is kept back, and no other.
 *
 * @throws Error when the text is no such TypeScript
 */
export function stripTypes(source: string): string {
  const { emitWarning } = process
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    const text = typeof warning === 'string' ? warning : warning.message
    if (!text.startsWith(WARNING)) Reflect.apply(emitWarning, process, [warning, ...rest])
  }
  try {
    return stripTypeScriptTypes(stripTypeScriptTypes(source), { mode: 'transform' })
  } finally {
    process.emitWarning = emitWarning
  }
}

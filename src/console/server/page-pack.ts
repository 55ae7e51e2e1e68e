import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { type Asset, type PackedAsset, packAsset } from '../../gateway/api/assets.ts'

/*
 * The page of the console made ready in one file: the length of a JSON text in four bytes, the text, then the assets,
 * each compressed with Brotli, in the order in which the text names them.
 */

interface PackHead {
  /** Hash of its sources; the pack is good for no other page. */
  readonly hash: string
  readonly assets: readonly { readonly name: string; readonly etag: string; readonly bytes: number }[]
}

/** The assets in a pack, by their names; none where there is no pack of this page. */
export function readPagePack(file: URL, hash: string): ReadonlyMap<string, PackedAsset> {
  const packed = new Map<string, PackedAsset>()
  const pack = readIfThere(file)
  if (pack === null) return packed
  const headEnd = 4 + pack.readUInt32LE()
  const head = JSON.parse(pack.toString('utf8', 4, headEnd)) as PackHead
  if (head.hash !== hash) return packed
  let at = headEnd
  for (const { name, etag, bytes } of head.assets) {
    packed.set(name, { etag, br: pack.subarray(at, at + bytes) })
    at += bytes
  }
  return packed
}

function readIfThere(file: URL): Buffer | null {
  try {
    return readFileSync(file)
  } catch {
    return null
  }
}

/** Writes a pack, its scripts and styles as short as they get. */
export async function writePagePack(
  path: string,
  hash: string,
  assets: readonly (readonly [name: string, asset: Asset])[],
): Promise<void> {
  const packed = await Promise.all(
    assets.map(async ([name, asset]) => ({ name, ...(await packAsset(await minified(name, asset))) })),
  )
  const head: PackHead = {
    hash,
    assets: packed.map(({ name, etag, br }) => ({ name, etag, bytes: br.length })),
  }
  const text = Buffer.from(JSON.stringify(head))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  await writeFile(path, Buffer.concat([length, text, ...packed.map(({ br }) => br)]))
}

/** Scripts and styles whose names say which they are; packages are published minified. */
async function minified(name: string, { load }: Asset): Promise<string | Uint8Array> {
  const content = await load()
  const [, ending] = /\.(ts|css)$/.exec(name) ?? []
  if (ending === undefined || typeof content !== 'string') return content
  const { transform } = await import('esbuild')
  const loader = ending === 'ts' ? 'js' : 'css'
  // The names in a script that is not a module are visible to other scripts.
  const isModule = /^[ \t]*(?:import|export)\b/m.test(content)
  const { code } = await transform(content, {
    ...{ loader, minify: true, charset: 'utf8', legalComments: 'none' },
    ...(isModule ? { format: 'esm' } : {}),
  })
  return code
}

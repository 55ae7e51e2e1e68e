import { useEffect, useState } from 'preact/hooks'
import { h } from '../h.ts'
import { Button } from './button.ts'

interface CopyProps {
  readonly text: string
  /** Names the copied text for screen readers and in a tooltip. */
  readonly label?: string
  /** Shown beside the icon. */
  readonly children?: string
  readonly onCopied?: () => void
}

export function Copy({ text, label = 'Copy', children, onCopied }: CopyProps) {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle')
  useEffect(() => {
    if (state === 'idle') return
    const timer = setTimeout(() => setState('idle'), 1600)
    return () => clearTimeout(timer)
  }, [state])
  const copy = async () => {
    const done = await toClipboard(text)
    setState(done ? 'done' : 'failed')
    if (done) onCopied?.()
  }
  const icon = state === 'done' ? 'check' : state === 'failed' ? 'alert' : 'copy'
  const said =
    state === 'done' ? 'Copied' : state === 'failed' ? 'Couldn’t copy. Select the text and copy it.' : ''
  return h(
    'span',
    { class: 'copy' },
    h(
      Button,
      { kind: children ? 'plain' : 'quiet', small: true, icon, label: said || label, onClick: copy },
      children ? (state === 'done' ? 'Copied' : children) : undefined,
    ),
    h('span', { class: 'hidden', role: 'status' }, said),
  )
}

/** The clipboard's own interface is there on https and localhost only. */
async function toClipboard(text: string): Promise<boolean> {
  if (navigator.clipboard)
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  const area = document.createElement('textarea')
  area.value = text
  area.readOnly = true
  area.className = 'hidden'
  // An open dialog keeps everything outside from being selected.
  const place = document.querySelector('dialog[open]') ?? document.body
  place.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  return done
}

/** A block of code or output to copy; it scrolls within itself. */
export function Code(props: {
  readonly text: string
  /** Shown above the block: "curl", "Error". */
  readonly title?: string
  /** Breaks long lines rather than scroll. */
  readonly wrap?: boolean
  /** Keeps a long text within a height that scrolls. */
  readonly tall?: boolean
  readonly onCopied?: () => void
}) {
  const { text, title, wrap = false, tall = false, onCopied } = props
  return h(
    'figure',
    { class: 'code' },
    h(
      'figcaption',
      { class: 'code-head' },
      h('span', null, title ?? ''),
      h(Copy, { text, label: `Copy ${title ?? 'text'}`, onCopied }),
    ),
    h(
      'pre',
      { class: `${wrap ? 'code-wrap' : ''} ${tall ? 'code-tall' : ''}`, tabindex: 0 },
      h('code', null, text),
    ),
  )
}

import { html } from '../html.ts'
import { Copy } from './copy.ts'

/** A block of code or output to copy; it scrolls within itself. */
export function Code(props: {
  readonly text: string
  /** "curl", "Error": stands above the block. */
  readonly title?: string
  /** Breaks long lines rather than scroll. */
  readonly wrap?: boolean
  /** Keeps a long text within a height that scrolls. */
  readonly tall?: boolean
  readonly onCopied?: () => void
}) {
  const { text, title, wrap = false, tall = false, onCopied } = props
  return html`<figure class="code">
    <figcaption class="code-head">
      <span>${title ?? ''}</span>
      <${Copy} text=${text} label=${`Copy ${title ?? 'text'}`} onCopied=${onCopied} />
    </figcaption>
    <pre class=${`${wrap ? 'code-wrap' : ''} ${tall ? 'code-tall' : ''}`} tabindex="0"><code>${text}</code></pre>
  </figure>`
}

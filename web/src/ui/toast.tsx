import { useEffect, useState } from 'preact/hooks';

interface Toast {
  id: number;
  text: string;
}

const SHOWN_MS = 5_000;
let next = 0;
let show: (toast: Toast) => void = () => {};

/** Shows a confirmation for a few seconds. */
export function toast(text: string): void {
  show({ id: next++, text });
}

export function Toasts() {
  const [toasts, setToasts] = useState<Toast[]>([]);
  useEffect(() => {
    show = (one) => {
      setToasts((all) => [...all.slice(-2), one]);
      setTimeout(() => setToasts((all) => all.filter(({ id }) => id !== one.id)), SHOWN_MS);
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map(({ id, text }) => (
        <div class="toast" key={id}>
          {text}
        </div>
      ))}
    </div>
  );
}

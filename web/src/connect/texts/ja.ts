import type { Texts } from './en.ts';

export const texts: Texts = {
  title: 'メールボックスを接続',
  asks: (who) => `${who} が、あなたに代わってメールを読み、送信する許可を求めています。`,
  privacy: (who) =>
    `パスワードまたはサインイン情報は暗号化して保存されます。${who} は、ここでメールボックスが削除されるか、プロバイダーでパスワードが変更されるか、` +
    'アクセスが取り消されるまで、それを使ってメールを読み、送信します。',
  language: '言語',
  moment: 'お待ちください…',

  address: 'メールアドレス',
  password: 'パスワード',
  appPassword: 'アプリ パスワード',
  show: 'パスワードを表示',
  connect: 'メールボックスを接続',
  busy: 'ログインしています…',
  cancel: 'キャンセル',
  cancelAndBack: 'キャンセルして戻る',
  back: '戻る',
  continueWith: (provider) => `${provider} で続ける`,
  orAppPassword: 'または、アプリ パスワードで接続します。',

  looking: 'プロバイダーを調べています…',
  lookupFailed: 'プロバイダーを確認できませんでした。もう一度お試しください。',
  unknownServers:
    'このアドレスのメールサーバーが分かりません。下に入力してください。サーバー名はプロバイダーまたは社内の IT 担当者にお問い合わせください。',
  notFoundTitle: 'サーバーが見つかりませんでした',
  more: 'その他のオプション',
  incoming: '受信メール (IMAP)',
  outgoing: '送信メール (SMTP)',
  server: 'サーバー',
  port: 'ポート',
  encryption: '暗号化',
  none: 'なし',

  closedTitle: 'このメールボックスはパスワードでは接続できません',
  closedAdvice: (who) => `別のアドレスを使うか、キャンセルして ${who} にお知らせください。`,
  closedOther: 'このプロバイダーは、他のサービスからのパスワードによる接続を受け付けていません。',
  closed: {
    microsoft:
      'Microsoft は、Outlook.com、Hotmail、およびほとんどの Microsoft 365 のメールボックスでパスワードを受け付けなくなりました。Microsoft でのサインインが必要です。',
    proton: 'Proton Mail はメールボックスを暗号化しているため、他のサービスから読むことはできません。',
    tuta: 'Tuta はメールボックスを暗号化しているため、他のサービスから読むことはできません。',
  },
  otherProvider: 'このメールボックスは別のプロバイダーのものです',

  steps: {
    stepsTitle: 'このプロバイダーではアプリ パスワードが必要です',
    imapTitle: 'まず IMAP によるアクセスを許可してください',
    twoStep: '2 段階認証プロセスが無効な場合は、有効にします。',
    open: 'このページを開いてサインインします。',
    choose: (what) => `「${what}」を選びます。`,
    create: (name) => `新しいアプリ パスワードを作成します。名前を求められたら「${name}」と入力します。`,
    paste: 'コピーして下に貼り付けます。空白はあってもかまいません。',
    switchOn: 'IMAP によるアクセスを有効にして保存します。',
    then: '次に、下にメールボックスのパスワードを入力します。',
    help: 'プロバイダーのヘルプページ',
    icloud: 'サインインとセキュリティ → アプリ用パスワード',
  },

  failed: '接続できませんでした',
  failures: {
    'errors/invalid_credentials':
      'プロバイダーがこのアドレスとパスワードを受け付けませんでした。両方をご確認ください。',
    'errors/provider_error':
      'メールサーバーに接続できないか、想定外の応答がありました。しばらくしてからもう一度お試しください。',
    'errors/provider_rejected': 'プロバイダーが接続を拒否しました。',
    'errors/already_exists': 'このメールボックスは、すでに別の方が接続しています。',
    'errors/too_many_requests': '試行回数が多すぎます。1 分ほどお待ちください。',
    'errors/service_unavailable': '現在サービスを利用できません。しばらくしてからもう一度お試しください。',
    'errors/not_found': 'このリンクは使えなくなりました。新しいリンクを依頼してください。',
    'errors/invalid_parameters': '入力内容に誤りがあります。ご確認ください。',
    '': 'サービスに接続できません。通信状況を確認して、もう一度お試しください。',
  },
  failedOther: '問題が発生しました。もう一度お試しください。',
  tryAppPassword: '普段のサインインに使うパスワードではなく、上の手順で作成したアプリ パスワードが必要です。',
  tryImap: '上の手順のとおり、IMAP によるアクセスは有効になっていますか？',
  details: 'サポート用の詳細',
  returned: {
    access_denied: 'アクセスが許可されませんでした。何も接続されていません。',
    other_address: '接続するアドレスとは別のアドレスでサインインしました。接続するアドレスでサインインしてください。',
    invalid_credentials:
      'メールサーバーがサインインを受け付けませんでした。このメールボックスで IMAP が無効になっている可能性があります。',
    provider_rejected: '現在、プロバイダーがこのサービスを受け付けていません。リンクの送信元による対応が必要です。',
    provider_error: 'メールサーバーに接続できないか、想定外の応答がありました。',
    already_exists: 'このメールボックスは、すでに別の方が接続しています。',
    too_many_requests: '試行回数が多すぎます。1 分ほどお待ちください。',
    expired: 'サインインに時間がかかりすぎたか、別のブラウザーで開始されました。もう一度リンクを開いてください。',
  },
  returnedOther: 'プロバイダーでのサインインに失敗しました。もう一度お試しください。',

  goneTitle: 'このリンクは使えません',
  goneWhy: '一部しかコピーされていないか、取り消された可能性があります。',
  askNew: (who) => `${who}、またはリンクを送った方に、新しいリンクを依頼してください。`,
  wrong: '問題が発生しました',
  doneTitle: 'メールボックスが接続されました',
  done: '完了',
  doneText: 'このページを閉じてください。',
  usedTitle: 'このリンクはすでに使用されています',
  usedText: 'このリンクでメールボックスが接続されました。',
  expiredTitle: 'このリンクは期限切れです',
  cancelledTitle: '何も接続されていません',
  cancelledText: 'このリンクは使えなくなりました。',
};

import type { Texts } from './en.ts';

export const texts: Texts = {
  title: 'Postfach verbinden',
  asks: (who) => `${who} möchte in Ihrem Namen E-Mails lesen und senden.`,
  privacy: (who) =>
    `Ihr Passwort oder Ihre Anmeldung wird verschlüsselt gespeichert. ${who} liest und sendet damit E-Mails, bis das Postfach ` +
    'hier entfernt wird oder Sie bei Ihrem Anbieter das Passwort ändern oder den Zugriff widerrufen.',
  language: 'Sprache',
  moment: 'Einen Moment …',

  address: 'E-Mail-Adresse',
  password: 'Passwort',
  appPassword: 'App-Passwort',
  show: 'Passwort anzeigen',
  connect: 'Postfach verbinden',
  busy: 'Anmeldung läuft …',
  cancel: 'Abbrechen',
  cancelAndBack: 'Abbrechen und zurück',
  back: 'Zurück',
  continueWith: (provider) => `Weiter mit ${provider}`,
  orAppPassword: 'Oder mit einem App-Passwort verbinden:',

  looking: 'Ihr Anbieter wird gesucht …',
  lookupFailed: 'Ihr Anbieter konnte nicht ermittelt werden. Bitte versuchen Sie es noch einmal.',
  unknownServers:
    'Wir kennen die Mailserver dieser Adresse nicht: Bitte tragen Sie sie unten ein. Ihr Anbieter oder Ihre IT-Abteilung ' +
    'kann sie Ihnen nennen.',
  notFoundTitle: 'Die Server wurden nicht gefunden',
  more: 'Weitere Optionen',
  incoming: 'Posteingang (IMAP)',
  outgoing: 'Postausgang (SMTP)',
  server: 'Server',
  port: 'Port',
  encryption: 'Verschlüsselung',
  none: 'Keine',

  closedTitle: 'Dieses Postfach lässt sich nicht mit einem Passwort verbinden',
  closedAdvice: (who) => `Bitte verwenden Sie eine andere Adresse, oder brechen Sie ab und geben Sie ${who} Bescheid.`,
  closedOther: 'Dieser Anbieter lässt Passwörter für andere Dienste nicht mehr zu.',
  closed: {
    microsoft:
      'Microsoft akzeptiert für Outlook.com, Hotmail und die meisten Postfächer von Microsoft 365 keine Passwörter mehr: ' +
      'Nötig ist eine Anmeldung bei Microsoft.',
    proton: 'Proton Mail verschlüsselt Postfächer so, dass kein anderer Dienst sie lesen kann.',
    tuta: 'Tuta verschlüsselt Postfächer so, dass kein anderer Dienst sie lesen kann.',
  },
  otherProvider: 'Dieses Postfach liegt bei einem anderen Anbieter',

  steps: {
    stepsTitle: 'Ihr Anbieter verlangt ein App-Passwort',
    imapTitle: 'Erlauben Sie zuerst den Zugriff über IMAP',
    twoStep: 'Schalten Sie die Bestätigung in zwei Schritten ein, falls sie aus ist:',
    open: 'Öffnen Sie diese Seite und melden Sie sich an:',
    choose: (what) => `Wählen Sie „${what}“.`,
    create: (name) => `Erstellen Sie ein neues App-Passwort. Falls ein Name verlangt wird, geben Sie „${name}“ ein.`,
    paste: 'Kopieren Sie es und fügen Sie es unten ein. Leerzeichen darin spielen keine Rolle.',
    switchOn: 'Schalten Sie den Zugriff über IMAP ein und speichern Sie.',
    then: 'Geben Sie dann unten das Passwort Ihres Postfachs ein.',
    help: 'Hilfeseite des Anbieters',
    icloud: 'Anmeldung und Sicherheit → App-spezifische Passwörter',
  },

  failed: 'Das hat nicht geklappt',
  failures: {
    'errors/invalid_credentials': 'Ihr Anbieter hat Adresse und Passwort nicht akzeptiert. Bitte prüfen Sie beides.',
    'errors/provider_error':
      'Der Mailserver war nicht erreichbar oder hat nicht wie erwartet geantwortet. Bitte versuchen Sie es später noch einmal.',
    'errors/provider_rejected': 'Ihr Anbieter hat die Verbindung abgelehnt.',
    'errors/already_exists': 'Dieses Postfach ist bereits verbunden, von jemand anderem.',
    'errors/too_many_requests': 'Zu viele Versuche. Bitte warten Sie eine Minute.',
    'errors/service_unavailable': 'Der Dienst ist gerade nicht verfügbar. Bitte versuchen Sie es gleich noch einmal.',
    'errors/not_found': 'Dieser Link funktioniert nicht mehr. Bitte lassen Sie sich einen neuen geben.',
    'errors/invalid_parameters': 'Eine Angabe im Formular stimmt nicht. Bitte prüfen Sie Ihre Eingaben.',
    '': 'Der Dienst ist nicht erreichbar. Bitte prüfen Sie Ihre Verbindung und versuchen Sie es noch einmal.',
  },
  failedOther: 'Bei uns ist etwas schiefgegangen. Bitte versuchen Sie es noch einmal.',
  tryAppPassword:
    'Es muss ein App-Passwort sein, wie oben beschrieben, nicht das Passwort, mit dem Sie sich sonst anmelden.',
  tryImap: 'Ist der Zugriff über IMAP eingeschaltet, wie oben beschrieben?',
  details: 'Details für den Support',
  returned: {
    access_denied: 'Sie haben den Zugriff nicht erlaubt. Es wurde nichts verbunden.',
    other_address:
      'Sie haben sich mit einer anderen Adresse angemeldet als der, die verbunden werden soll. Bitte melden Sie sich mit ' +
      'dieser Adresse an.',
    invalid_credentials:
      'Der Mailserver hat die Anmeldung nicht akzeptiert. Vielleicht ist IMAP für dieses Postfach ausgeschaltet.',
    provider_rejected:
      'Der Anbieter lässt diesen Dienst derzeit nicht zu. Das muss derjenige beheben, von dem Sie den Link haben.',
    provider_error: 'Der Mailserver war nicht erreichbar oder hat nicht wie erwartet geantwortet.',
    already_exists: 'Dieses Postfach ist bereits verbunden, von jemand anderem.',
    too_many_requests: 'Zu viele Versuche. Bitte warten Sie eine Minute.',
    expired:
      'Die Anmeldung hat zu lange gedauert oder wurde in einem anderen Browser begonnen. Bitte öffnen Sie den Link noch einmal.',
  },
  returnedOther: 'Die Anmeldung beim Anbieter ist fehlgeschlagen. Bitte versuchen Sie es noch einmal.',

  goneTitle: 'Dieser Link funktioniert nicht',
  goneWhy: 'Vielleicht wurde er unvollständig kopiert oder zurückgezogen.',
  askNew: (who) =>
    `Bitte wenden Sie sich an ${who} oder an die Person, von der Sie den Link haben: Sie brauchen einen neuen.`,
  wrong: 'Etwas ist schiefgegangen',
  doneTitle: 'Ihr Postfach ist verbunden',
  done: 'Fertig',
  doneText: 'Sie können diese Seite schließen.',
  usedTitle: 'Dieser Link wurde schon benutzt',
  usedText: 'Mit ihm wurde ein Postfach verbunden.',
  expiredTitle: 'Dieser Link ist abgelaufen',
  cancelledTitle: 'Es wurde nichts verbunden',
  cancelledText: 'Dieser Link funktioniert nicht mehr.',
};

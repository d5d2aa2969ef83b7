import { describe, expect, test } from '@jest/globals';
import { readReplyText } from '../../../src/mime/reply/reply-text.ts';

const OWN = 'Yes, that suits me.\n\nSee you at the station.';

describe('a signature goes', () => {
  test.each([
    ['-- \nBo Lind\nExample Ltd'],
    ['--\nBo Lind\n+49 30 1234'],
    ['Sent from my iPhone'],
    ['Sent from my Galaxy S24, please excuse typos.'],
    ['Get Outlook for iOS<https://aka.ms/o0ukef>'],
    ['Von meinem iPhone gesendet'],
    ['Gesendet mit der GMX Mail App'],
    ['Gesendet von Outlook für Android<https://aka.ms/AAb9ysg>'],
    ['Envoyé de mon iPhone'],
    ['Envoyé depuis mon appareil Galaxy'],
    ['Enviado desde mi iPhone'],
    ['Enviado do meu iPhone'],
    ['Inviato da iPhone'],
    ['Verstuurd vanaf mijn iPad'],
    ['Skickat från min iPhone'],
    ['Sendt fra min iPhone'],
    ['Lähetetty iPhonesta'],
    ['Wysłane z iPhone’a'],
    ['Отправлено с iPhone'],
    ['iPhoneから送信'],
    ['发自我的 iPhone'],
    ['從我的 iPhone 傳送'],
    ['나의 iPhone에서 보냄'],
    ['iPhone’umdan gönderildi'],
    ['Sent from Yahoo Mail on Android'],
    ['Sent with Proton Mail secure email.'],
    [
      '_______________________________________________\nusers mailing list -- users@list.example\nhttps://list.example/listinfo/users',
    ],
  ])('%j', (signature) => {
    expect(readReplyText(`${OWN}\n\n${signature}`)).toBe(OWN);
    expect(
      readReplyText(`${OWN}\n\n${signature}\n\nFrom: Ada <ada@mail.example>\nSent: Monday\nTo: Bo\nSubject: x\n\ny`),
    ).toBe(OWN);
  });
});
